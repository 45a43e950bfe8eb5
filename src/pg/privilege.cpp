// See privilege.hpp.
#include "pg/privilege.hpp"

extern "C"
{
#include "catalog/pg_authid.h"
#include "utils/acl.h"
#include "utils/rls.h"
}

namespace vectorgpu::pg
{

bool
may_read_table(Oid table)
{
	if (superuser() || has_privs_of_role(GetUserId(), ROLE_PG_STAT_SCAN_TABLES))
		return true;
	return pg_class_aclcheck(table, GetUserId(), ACL_SELECT) == ACLCHECK_OK &&
		check_enable_rls(table, InvalidOid, true) != RLS_ENABLED;
}

} // namespace vectorgpu::pg
