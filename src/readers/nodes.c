/*-------------------------------------------------------------------------
 *
 * nodes.c
 *	  Replace the functions of plan nodes by functions of ours.
 *
 * Each pair of a node's function and our function that is to be called in its
 * place (taken_node) gets a number n when we first see the pair.  ours[n]
 * takes the place of the node's function, and finds the pair by the number:
 *
 *	    ps->ExecProcNodeReal = ours[n]  --->  taken_node(ps, n)
 *	                                              |
 *	                    functions[n](ps)  <-------+  node_call(ps, n)
 *
 * So nothing is allocated for a node.  If another library puts a function of
 * its own into a node, before us or after us, that function stays.
 *
 * Portions Copyright (c) 2026, the pg_ringctl authors
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "readers/nodes.h"

/*
 * For sequential scans the server has up to four functions (and one for
 * EvalPlanQual, whose nodes are never taken).  We replace each of the four by
 * one of three functions of ours.  For each of the other six kinds of nodes
 * the server has one function, which we replace by one.  That makes 18 in all.
 * The rest is for functions of other libraries that wrap nodes.
 */
#define MAX_FUNCTIONS	32

int			node_nfunctions = 0;

/* A function of nodes, and what is called in its place. */
static struct
{
	ExecProcNodeMtd function;
	TakenNodeMtd taken_node;
}			functions[MAX_FUNCTIONS];

/* All numbers below MAX_FUNCTIONS. */
#define NUMBERS(X) \
	X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) \
	X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) \
	X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23) \
	X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)

#define OURS(n) \
static TupleTableSlot * \
ours_##n(PlanState *ps) \
{ \
	return functions[n].taken_node(ps, n); \
}
NUMBERS(OURS)

#define NAME(n)	ours_##n,
static const ExecProcNodeMtd ours[MAX_FUNCTIONS] = {NUMBERS(NAME)};

/*
 * node_take
 *		Take a node: give the pair of its function and taken_node() a number n,
 *		and replace the function by ours[n], which calls taken_node().
 *
 * Leave the node as it is if it has a function of ours already, or if other
 * pairs have all MAX_FUNCTIONS numbers.  Returns whether the node was taken.
 */
bool
node_take(PlanState *ps, TakenNodeMtd taken_node)
{
	ExecProcNodeMtd function = ps->ExecProcNodeReal;
	int			n = 0;

	while (n < node_nfunctions &&
		   (functions[n].function != function || functions[n].taken_node != taken_node))
	{
		if (ours[n] == function)
			return false;
		n++;
	}
	if (n == MAX_FUNCTIONS)
		return false;
	if (n == node_nfunctions)
	{
		functions[n].function = function;
		functions[n].taken_node = taken_node;
		node_nfunctions++;
	}
	ps->ExecProcNodeReal = ours[n];
	if (ps->ExecProcNode == function)
		ps->ExecProcNode = ours[n];
	return true;
}

/*
 * node_is_taken
 *		Does the node have one of our functions?
 */
bool
node_is_taken(const PlanState *ps)
{
	for (int n = 0; n < node_nfunctions; n++)
		if (ps->ExecProcNodeReal == ours[n])
			return true;
	return false;
}

/*
 * node_is_wrapped
 *		Does another library's function call ours?  If so, node_restore() can't
 *		take ours away.
 */
bool
node_is_wrapped(const PlanState *ps, int n)
{
	return ps->ExecProcNodeReal != ours[n] && ps->ExecProcNode != ours[n];
}

/*
 * node_call
 *		Call the node's own function.
 */
TupleTableSlot *
node_call(PlanState *ps, int n)
{
	return functions[n].function(ps);
}

/*
 * node_restore
 *		Put the node's own function back, unless another library's function is
 *		there.
 */
void
node_restore(PlanState *ps, int n)
{
	if (ps->ExecProcNodeReal == ours[n])
		ps->ExecProcNodeReal = functions[n].function;
	if (ps->ExecProcNode == ours[n])
		ps->ExecProcNode = functions[n].function;
}

/*
 * node_hand_back
 *		Put the node's own function back, and call it.
 */
TupleTableSlot *
node_hand_back(PlanState *ps, int n)
{
	node_restore(ps, n);
	return node_call(ps, n);
}
