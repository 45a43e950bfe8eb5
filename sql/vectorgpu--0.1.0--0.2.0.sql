-- vectorgpu 0.2.0: what ALTER EXTENSION vectorgpu UPDATE adds to 0.1.0; CREATE EXTENSION runs the script of 0.1.0 and this one
\echo Use "ALTER EXTENSION vectorgpu UPDATE TO '0.2.0'" to load this file. \quit

CREATE FUNCTION vectorgpu_recall(
	index regclass,
	INOUT sample int4 DEFAULT 100,
	INOUT k int4 DEFAULT 10,
	OUT found int8,
	OUT wanted int8,
	OUT recall float8,
	OUT recall_low float8,
	OUT recall_high float8)
	AS 'MODULE_PATHNAME', 'vectorgpu_recall' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION vectorgpu_recall(regclass, int4, int4) IS
	'share of the k nearest rows that the index finds for a random sample of the table''s rows, with its 95 % confidence interval';

REVOKE ALL ON FUNCTION vectorgpu_recall(regclass, int4, int4) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION vectorgpu_recall(regclass, int4, int4) TO pg_stat_scan_tables;
