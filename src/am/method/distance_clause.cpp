// See distance_clause.hpp.
#include "am/method/distance_clause.hpp"

#include "am/method/index_access.hpp"

extern "C"
{
#include "access/htup_details.h"
#include "catalog/pg_amop.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "utils/catcache.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"
}

namespace vectorgpu::am
{

namespace
{

/// True if the expression has one value for all rows of the table that one scan reads.
bool
is_same_for_scan(PlannerInfo *root, const IndexOptInfo *index, Node *expression)
{
	return !bms_is_member(static_cast<int>(index->rel->relid), pull_varnos(root, expression)) &&
		!contain_volatile_functions(expression) && !contain_subplans(expression);
}

bool
is_float(const Node *expression)
{
	return exprType(expression) == FLOAT8OID || exprType(expression) == FLOAT4OID;
}

/// The least share that the conditions leave, or `share`.
double
least_share(PlannerInfo *root, const IndexPath *path, const List *conditions, double share)
{
	ListCell *cell;

	foreach (cell, conditions)
	{
		RestrictInfo *condition = lfirst_node(RestrictInfo, cell);
		DistanceClause clause;

		if (distance_clause_read(root, path->indexinfo, condition->clause, &clause) &&
			distance_clause_is_upper(clause) && equal(clause.distance, linitial(path->indexorderbys)))
			share = Min(share,
				condition->norm_selec >= 0 ? condition->norm_selec
										   : clause_selectivity(root, reinterpret_cast<Node *>(condition),
												 static_cast<int>(path->indexinfo->rel->relid), JOIN_INNER, nullptr));
	}
	return share;
}

} // namespace

bool
is_distance_operator(Oid opno)
{
	CatCList *members = SearchSysCacheList1(AMOPOPID, ObjectIdGetDatum(opno));
	bool found = false;

	for (int i = 0; i < members->n_members && !found; i++)
	{
		const Form_pg_amop member = reinterpret_cast<Form_pg_amop>(GETSTRUCT(&members->members[i]->tuple));

		found = member->amoppurpose == AMOP_ORDER && is_vectorgpu_method(member->amopmethod);
	}
	ReleaseCatCacheList(members);
	return found;
}

OpExpr *
index_distance(IndexOptInfo *index, Expr *expression)
{
	OpExpr *distance = reinterpret_cast<OpExpr *>(expression);
	Oid opno;

	if (!IsA(expression, OpExpr) || list_length(distance->args) != 2 ||
		(OidIsValid(index->indexcollations[0]) && index->indexcollations[0] != distance->inputcollid))
		return nullptr;
	opno = distance->opno;
	if (!match_index_to_operand(static_cast<Node *>(linitial(distance->args)), 0, index))
	{
		opno = get_commutator(opno);
		if (!OidIsValid(opno) || !match_index_to_operand(static_cast<Node *>(lsecond(distance->args)), 0, index))
			return nullptr;
		distance = static_cast<OpExpr *>(copyObjectImpl(distance));
		distance->opno = opno;
		distance->opfuncid = get_opcode(opno);
		distance->args = list_make2(lsecond(distance->args), linitial(distance->args));
	}
	return OidIsValid(get_op_opfamily_sortfamily(opno, index->opfamily[0])) ? distance : nullptr;
}

bool
distance_clause_read(PlannerInfo *root, IndexOptInfo *index, Expr *condition, DistanceClause *clause)
{
	const OpExpr *comparison = reinterpret_cast<const OpExpr *>(condition);
	Oid opno;

	if (!IsA(condition, OpExpr) || list_length(comparison->args) != 2)
		return false;
	opno = comparison->opno;
	clause->limit = static_cast<Expr *>(lsecond(comparison->args));
	clause->distance = index_distance(index, static_cast<Expr *>(linitial(comparison->args)));
	if (clause->distance == nullptr)
	{
		opno = get_commutator(opno);
		clause->limit = static_cast<Expr *>(linitial(comparison->args));
		clause->distance = index_distance(index, static_cast<Expr *>(lsecond(comparison->args)));
	}
	if (clause->distance == nullptr || !OidIsValid(opno) ||
		exprType(reinterpret_cast<Node *>(clause->distance)) != FLOAT8OID ||
		!is_float(reinterpret_cast<Node *>(clause->limit)))
		return false;
	clause->strategy = static_cast<StrategyNumber>(
		get_op_opfamily_strategy(opno, lookup_type_cache(FLOAT8OID, TYPECACHE_BTREE_OPFAMILY)->btree_opf));
	return clause->strategy != InvalidStrategy &&
		is_same_for_scan(root, index, reinterpret_cast<Node *>(clause->limit)) &&
		is_same_for_scan(root, index, static_cast<Node *>(lsecond(clause->distance->args)));
}

bool
distance_clause_is_upper(const DistanceClause &clause)
{
	return clause.strategy == BTLessStrategyNumber || clause.strategy == BTLessEqualStrategyNumber;
}

double
share_within_bound(PlannerInfo *root, const IndexPath *path)
{
	const ParamPathInfo *outer = path->path.param_info;
	double share = least_share(root, path, path->indexinfo->rel->baserestrictinfo, 1);

	return outer != nullptr ? least_share(root, path, outer->ppi_clauses, share) : share;
}

} // namespace vectorgpu::am
