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

#define OURS(n) \
static TupleTableSlot * \
ours_##n(PlanState *ps) \
{ \
	return functions[n].taken_node(ps, n); \
}

OURS(0)
OURS(1)
OURS(2)
OURS(3)
OURS(4)
OURS(5)
OURS(6)
OURS(7)
OURS(8)
OURS(9)
OURS(10)
OURS(11)
OURS(12)
OURS(13)
OURS(14)
OURS(15)
OURS(16)
OURS(17)
OURS(18)
OURS(19)
OURS(20)
OURS(21)
OURS(22)
OURS(23)
OURS(24)
OURS(25)
OURS(26)
OURS(27)
OURS(28)
OURS(29)
OURS(30)
OURS(31)

static const ExecProcNodeMtd ours[MAX_FUNCTIONS] = {
	ours_0, ours_1, ours_2, ours_3, ours_4, ours_5, ours_6, ours_7,
	ours_8, ours_9, ours_10, ours_11, ours_12, ours_13, ours_14, ours_15,
	ours_16, ours_17, ours_18, ours_19, ours_20, ours_21, ours_22, ours_23,
	ours_24, ours_25, ours_26, ours_27, ours_28, ours_29, ours_30, ours_31,
};

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
