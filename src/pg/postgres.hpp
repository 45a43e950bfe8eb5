// PostgreSQL's headers for every C++ file of the server module (PG dialect): postgres.h first, in extern "C", then
// headers that nearly every file needs. Files include further server headers inside their own extern "C".
#pragma once

extern "C"
{
#include "postgres.h"

#include "access/genam.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/rel.h"
}

#include "pg/compat.hpp"

// port.h defines these as macros, which breaks C++ standard headers that are included later.
#undef printf
#undef fprintf
#undef sprintf
#undef snprintf
#undef vprintf
#undef vfprintf
#undef vsprintf
#undef vsnprintf
#undef strerror
#undef strerror_r
#undef gettext
#undef dgettext
#undef ngettext
#undef dngettext
