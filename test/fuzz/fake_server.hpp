// The part of the server that the fuzz targets of the module's own sources need: memory, errors, messages, buffers over
// a file in memory. Nothing here is a server: no locks, no log, no catalogs. Missing symbols stay unresolved, so that a
// target crashes if it calls one.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "pg/postgres.hpp"

namespace vectorgpu::fuzz
{

/// The jump target of errors of level ERROR and above; the text is of the last one.
extern std::jmp_buf on_error;
extern char error_text[1024];
extern int error_code;

/// The pages of the only relation.
extern std::vector<char> pages;

/// A visible row of the table that the index belongs to; the value as it stands in memory, empty for NULL.
struct TableRow
{
	BlockNumber block;
	OffsetNumber offset;
	std::vector<char> value;
};

/// The rows of the table, in the order of their places (fake_table.cpp).
extern std::vector<TableRow> table_rows;
const TableAmRoutine *table_methods();

/// The relation, index and table in one: main fork, one column, permanent, with WAL.
Relation the_relation();

/// One call of a target: memory that the server would free with the transaction is freed at its end.
struct Call
{
	Call();
	~Call();
};

/// Run a function that may raise an error; false if it did. Objects on its stack are lost, as in the server.
template <class Function>
bool
no_error(Function function)
{
	if (setjmp(on_error) != 0)
		return false;
	function();
	return true;
}

/// Buffers pinned now.
int pins();

[[noreturn]] void broken(const char *what);

} // namespace vectorgpu::fuzz

/// An invariant of a fuzz target.
#define REQUIRE(condition) ((condition) ? (void) 0 : vectorgpu::fuzz::broken(#condition))
