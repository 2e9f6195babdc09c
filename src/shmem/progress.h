/*-------------------------------------------------------------------------
 *
 * progress.h
 *	  The progress of commands that prewarm.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_PROGRESS_H
#define RINGCTL_PROGRESS_H

#include "datatype/timestamp.h"

/* The commands, and what users call them. */
#define PROGRESS_COMMANDS(COMMAND) \
	COMMAND(COMMAND_PREWARM, "prewarm") \
	COMMAND(COMMAND_PREWARM_ALL, "prewarm_all") \
	COMMAND(COMMAND_PREWARM_BLOCKS, "prewarm_blocks")

/* The phases of a command, and what users call them. */
#define PROGRESS_PHASES(PHASE) \
	PHASE(PHASE_INITIALIZING, "initializing") \
	PHASE(PHASE_READING, "reading blocks") \
	PHASE(PHASE_WAITING, "waiting for workers")

#define PROGRESS_MEMBER(member, name)	member,

typedef enum ProgressCommand
{
	PROGRESS_COMMANDS(PROGRESS_MEMBER)
} ProgressCommand;

typedef enum ProgressPhase
{
	PROGRESS_PHASES(PROGRESS_MEMBER)
} ProgressPhase;

/* A command as other sessions see it. */
typedef struct Progress
{
	int			pid;			/* 0: no command */
	Oid			datid;
	Oid			relid;			/* relation that is read now; at first, the
								 * one that the command was called for */
	ProgressCommand command;
	ProgressPhase phase;
	int			workers;		/* number of parallel workers that help */
	int64		blocks_total;	/* blocks of all relations to be read */
	int64		blocks_done;	/* blocks read by all processes so far */
	TimestampTz started;
} Progress;

extern double progress_run(ProgressCommand command, Oid relid,
						   void (*run) (void *arg), void *arg);
extern void progress_set_total(int64 blocks);
extern void progress_set_relation(Oid relid);
extern void progress_set_phase(ProgressPhase phase, int workers);
extern void progress_add(int64 blocks);
extern int	progress_read(Progress **all);
extern const char *progress_command_name(ProgressCommand command);
extern const char *progress_phase_name(ProgressPhase phase);

#endif							/* RINGCTL_PROGRESS_H */
