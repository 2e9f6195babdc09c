/*-------------------------------------------------------------------------
 *
 * faults.h
 *	  Let the n-th request for memory, or for what needs memory, fail.
 *
 * t/018_faults.pl compiles the library with this in front of every file.
 * After SET faults.at = n, our n-th call of one of the functions below raises
 * an error instead.  If n is 0, no call fails.
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

/* Every object file has this function; the library has it once. */
__attribute__((weak))
void
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

#define FAULT(call) (faults_count(), call)

#define AllocSetContextCreateInternal(...) FAULT(AllocSetContextCreateInternal(__VA_ARGS__))
#define CreateParallelContext(...) FAULT(CreateParallelContext(__VA_ARGS__))
#define GetNamedDSMSegment(...) FAULT(GetNamedDSMSegment(__VA_ARGS__))
#define InitMaterializedSRF(...) FAULT(InitMaterializedSRF(__VA_ARGS__))
#define InitializeParallelDSM(...) FAULT(InitializeParallelDSM(__VA_ARGS__))
#define LaunchParallelWorkers(...) FAULT(LaunchParallelWorkers(__VA_ARGS__))
#define MemoryContextAlloc(...) FAULT(MemoryContextAlloc(__VA_ARGS__))
#define MemoryContextAllocExtended(...) FAULT(MemoryContextAllocExtended(__VA_ARGS__))
#define MemoryContextAllocZero(...) FAULT(MemoryContextAllocZero(__VA_ARGS__))
#define ResourceOwnerEnlarge(...) FAULT(ResourceOwnerEnlarge(__VA_ARGS__))
#define WaitEventExtensionNew(...) FAULT(WaitEventExtensionNew(__VA_ARGS__))
#define before_shmem_exit(...) FAULT(before_shmem_exit(__VA_ARGS__))
#define dsa_allocate_extended(...) FAULT(dsa_allocate_extended(__VA_ARGS__))
#define dsa_attach(...) FAULT(dsa_attach(__VA_ARGS__))
#define dsa_create_ext(...) FAULT(dsa_create_ext(__VA_ARGS__))
#define dsa_get_address(...) FAULT(dsa_get_address(__VA_ARGS__))
#define dshash_attach(...) FAULT(dshash_attach(__VA_ARGS__))
#define dshash_create(...) FAULT(dshash_create(__VA_ARGS__))
#define dshash_find(...) FAULT(dshash_find(__VA_ARGS__))
#ifdef dshash_find_or_insert	/* in 19 it is a macro */
#define dshash_find_or_insert_extended(...) FAULT(dshash_find_or_insert_extended(__VA_ARGS__))
#else
#define dshash_find_or_insert(...) FAULT(dshash_find_or_insert(__VA_ARGS__))
#endif
#define hash_create(...) FAULT(hash_create(__VA_ARGS__))
#define heap_form_tuple(...) FAULT(heap_form_tuple(__VA_ARGS__))
#define lappend(...) FAULT(lappend(__VA_ARGS__))
#define lappend_oid(...) FAULT(lappend_oid(__VA_ARGS__))
#define palloc(...) FAULT(palloc(__VA_ARGS__))
#define palloc0(...) FAULT(palloc0(__VA_ARGS__))
#define palloc_extended(...) FAULT(palloc_extended(__VA_ARGS__))
#define psprintf(...) FAULT(psprintf(__VA_ARGS__))
#define pstrdup(...) FAULT(pstrdup(__VA_ARGS__))
#define read_stream_begin_relation(...) FAULT(read_stream_begin_relation(__VA_ARGS__))
#define repalloc_huge(...) FAULT(repalloc_huge(__VA_ARGS__))
#define table_beginscan(...) FAULT(table_beginscan(__VA_ARGS__))
#define tuplestore_putvalues(...) FAULT(tuplestore_putvalues(__VA_ARGS__))

#endif							/* RINGCTL_FAULTS_H */
