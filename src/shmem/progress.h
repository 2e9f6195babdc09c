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

#include "utils/backend_progress.h"

/*
 * The server's number for any command of ours.  Must be changed whenever the
 * meaning of anything below changes.
 */
#define PROGRESS_COMMAND_RINGCTL	((ProgressCommandType) 0x5243)

/* What the server keeps for a command of ours; for pgstat_progress_...(). */
enum
{
	PROGRESS_KIND,				/* a ProgressCommand */
	PROGRESS_RELATION,			/* relation that is read now; at first, the
								 * one that the command was called for */
	PROGRESS_PHASE,				/* a ProgressPhase */
	PROGRESS_WORKERS,			/* number of parallel workers that help */
	PROGRESS_TOTAL,				/* blocks of all relations to be read */
	PROGRESS_DONE,				/* blocks read by all processes so far; see
								 * progress_add() */
	PROGRESS_STARTED,			/* a TimestampTz; 0: the rest is not yet set */
};

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

extern double progress_run(ProgressCommand command, Oid relid,
						   void (*run) (void *arg), void *arg);
extern void progress_add(int64 blocks);

#endif							/* RINGCTL_PROGRESS_H */
