/*-------------------------------------------------------------------------
 *
 * strategy.c
 *	  Check that the server's buffer access strategy is as we declare it.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "params.h"
#include "ring/strategy.h"
#include "utils/memutils.h"

/*
 * strategy_check
 *		Is the server's private struct as strategy.h declares it?
 *
 * Makes a strategy, and checks that every field holds what it must hold, and
 * that the server's own functions see a size which is set through our
 * declaration.  Works in the postmaster, too.  Returns NULL if all is well,
 * otherwise a sentence that says what is different.
 */
const char *
strategy_check(void)
{
	int			nbuffers = Min(NBuffers / 8, 32);
	BufferAccessStrategy strategy;
	const char *mismatch = NULL;
	bool		is_empty;
	bool		size_read_back;

	strategy = GetAccessStrategyWithSize(BAS_BULKREAD, 32 * KB_PER_BUFFER);

	if (strategy == NULL ||
		GetMemoryChunkSpace(strategy) <
		offsetof(BufferAccessStrategyData, buffers) + nbuffers * sizeof(Buffer))
		mismatch = "A buffer access strategy is smaller than expected.";
	else if (strategy->btype != BAS_BULKREAD)
		mismatch = "A buffer access strategy's type is not where expected.";
	else if (strategy->nbuffers != nbuffers ||
			 GetAccessStrategyBufferCount(strategy) != nbuffers)
		mismatch = "A buffer access strategy's size is not where expected.";
	else
	{
		is_empty = (strategy->current == 0);
		for (int i = 0; i < nbuffers; i++)
			is_empty = is_empty && strategy->buffers[i] == InvalidBuffer;

		strategy->nbuffers = nbuffers - 1;
		size_read_back = GetAccessStrategyBufferCount(strategy) == nbuffers - 1 &&
			GetAccessStrategyPinLimit(strategy) == nbuffers - 1;
		strategy->nbuffers = nbuffers;

		if (!is_empty)
			mismatch = "A new buffer access strategy is not empty.";
		else if (!size_read_back)
			mismatch = "The server does not see a changed size of a buffer access strategy.";
	}

#ifdef RINGCTL_TEST_MISMATCH
	mismatch = "It was built to find a mismatch.";
#endif

	FreeAccessStrategy(strategy);

	return mismatch;
}

/*
 * strategy_server_buffers
 *		Size, in buffers, of the ring that the server gives a sequential scan.
 */
int
strategy_server_buffers(void)
{
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
	int			nbuffers = GetAccessStrategyBufferCount(strategy);

	FreeAccessStrategy(strategy);
	return nbuffers;
}
