// Clauses of a query that the codes of an index's key columns decide, read by the planner into a form that plans can
// carry: a list of numbers, and the expressions that the columns are compared with. PG dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "nodes/pathnodes.h"
}

namespace vectorgpu::am
{

/// What the list of numbers says, an operand before its operands. Each of kTest and behind is followed by five numbers:
/// attribute of the index (from 1 on), strategy, type and collation of the operator, place of the expression.
enum class ClauseOp : int
{
	kAnd,      // followed by the number of operands, which follow
	kOr,       // likewise
	kMaybe,    // the rows that pass have to be tested
	kTest,     // the expression, a boolean that is the same for all rows, is true
	kCompare,  // column <strategy> expression
	kAnyOf,    // column <strategy> ANY (expression)
	kAllOf,    // column <strategy> ALL (expression)
	kDistinct, // column IS [NOT] DISTINCT FROM expression, by strategy <> or =
	kIsNull,
	kNotNull,
};
constexpr int kLeafNumbers = 5;

/// Clauses read so far.
struct ReadClauses
{
	List *numbers;     // integers
	List *expressions; // of the rows' other side
};

/// Read a clause, with what it says beside that if it has to be tested. False, and nothing is changed, unless codes can
/// tell rows that fail it.
bool clause_read(PlannerInfo *root, IndexOptInfo *index, Node *clause, ReadClauses *read);

/// True if core hands the clause, which was read, to the index as a key of a scan in order.
bool clause_is_key(PlannerInfo *root, IndexOptInfo *index, Node *clause);

} // namespace vectorgpu::am
