/*-------------------------------------------------------------------------
 *
 * faults.h
 *	  Let the n-th request for memory, or for something that needs some, fail.
 *
 * t/018_faults.pl compiles the library with this in front of every file.  After
 * SET faults.at = n, the n-th call of one of the functions below, from one of
 * ours, raises an error instead; 0 is none.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef RINGCTL_FAULTS_H
#define RINGCTL_FAULTS_H

#include "postgres.h"

#include "access/htup_details.h"
#include "access/parallel.h"
#include "access/tableam.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "lib/dshash.h"
#include "nodes/pg_list.h"
#include "storage/bufmgr.h"
#include "storage/dsm_registry.h"
#include "storage/ipc.h"
#include "storage/read_stream.h"
#include "storage/shm_toc.h"
#include "utils/builtins.h"
#include "utils/dsa.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/tuplestore.h"
#include "utils/wait_event.h"

extern void faults_count(void);

/* Every file has it, the library one. */
__attribute__((weak)) void
faults_count(void)
{
	static int	at = 0;
	static int	calls = 0;
	const char *value = GetConfigOption("faults.at", true, false);
	int			wanted = value ? atoi(value) : 0;

	if (wanted != at)
	{
		at = wanted;
		calls = 0;
	}
	if (at > 0 && ++calls == at)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY), errmsg("fault %d", at)));
}

#define AllocSetContextCreateInternal(...) \
	(faults_count(), AllocSetContextCreateInternal(__VA_ARGS__))
#define CreateParallelContext(...) \
	(faults_count(), CreateParallelContext(__VA_ARGS__))
#define GetNamedDSMSegment(...) \
	(faults_count(), GetNamedDSMSegment(__VA_ARGS__))
#define InitMaterializedSRF(...) \
	(faults_count(), InitMaterializedSRF(__VA_ARGS__))
#define InitializeParallelDSM(...) \
	(faults_count(), InitializeParallelDSM(__VA_ARGS__))
#define LaunchParallelWorkers(...) \
	(faults_count(), LaunchParallelWorkers(__VA_ARGS__))
#define MemoryContextAlloc(...) \
	(faults_count(), MemoryContextAlloc(__VA_ARGS__))
#define MemoryContextAllocExtended(...) \
	(faults_count(), MemoryContextAllocExtended(__VA_ARGS__))
#define MemoryContextAllocZero(...) \
	(faults_count(), MemoryContextAllocZero(__VA_ARGS__))
#define ResourceOwnerEnlarge(...) \
	(faults_count(), ResourceOwnerEnlarge(__VA_ARGS__))
#define WaitEventExtensionNew(...) \
	(faults_count(), WaitEventExtensionNew(__VA_ARGS__))
#define before_shmem_exit(...) \
	(faults_count(), before_shmem_exit(__VA_ARGS__))
#define dsa_allocate_extended(...) \
	(faults_count(), dsa_allocate_extended(__VA_ARGS__))
#define dsa_attach(...) \
	(faults_count(), dsa_attach(__VA_ARGS__))
#define dsa_create_ext(...) \
	(faults_count(), dsa_create_ext(__VA_ARGS__))
#define dsa_get_address(...) \
	(faults_count(), dsa_get_address(__VA_ARGS__))
#define dshash_attach(...) \
	(faults_count(), dshash_attach(__VA_ARGS__))
#define dshash_create(...) \
	(faults_count(), dshash_create(__VA_ARGS__))
#define dshash_find(...) \
	(faults_count(), dshash_find(__VA_ARGS__))
#ifdef dshash_find_or_insert	/* in 19 it is a macro */
#define dshash_find_or_insert_extended(...) \
	(faults_count(), dshash_find_or_insert_extended(__VA_ARGS__))
#else
#define dshash_find_or_insert(...) \
	(faults_count(), dshash_find_or_insert(__VA_ARGS__))
#endif
#define hash_create(...) \
	(faults_count(), hash_create(__VA_ARGS__))
#define heap_form_tuple(...) \
	(faults_count(), heap_form_tuple(__VA_ARGS__))
#define lappend(...) \
	(faults_count(), lappend(__VA_ARGS__))
#define lappend_oid(...) \
	(faults_count(), lappend_oid(__VA_ARGS__))
#define palloc(...) \
	(faults_count(), palloc(__VA_ARGS__))
#define palloc0(...) \
	(faults_count(), palloc0(__VA_ARGS__))
#define palloc_extended(...) \
	(faults_count(), palloc_extended(__VA_ARGS__))
#define psprintf(...) \
	(faults_count(), psprintf(__VA_ARGS__))
#define pstrdup(...) \
	(faults_count(), pstrdup(__VA_ARGS__))
#define read_stream_begin_relation(...) \
	(faults_count(), read_stream_begin_relation(__VA_ARGS__))
#define repalloc_huge(...) \
	(faults_count(), repalloc_huge(__VA_ARGS__))
#define table_beginscan(...) \
	(faults_count(), table_beginscan(__VA_ARGS__))
#define tuplestore_putvalues(...) \
	(faults_count(), tuplestore_putvalues(__VA_ARGS__))

#endif							/* RINGCTL_FAULTS_H */
