-- vectorgpu 0.3.0: additions of ALTER EXTENSION vectorgpu UPDATE to 0.2.0; CREATE EXTENSION runs the scripts before and this one
\echo Use "ALTER EXTENSION vectorgpu UPDATE TO '0.3.0'" to load this file. \quit

-- A server that preloads the library has the one of before in memory until it is restarted.
DO $script$
BEGIN
	CREATE FUNCTION vectorgpu_update_probe() RETURNS pg_catalog.int4 AS 'MODULE_PATHNAME', 'vectorgpu_index_reach' LANGUAGE C;
	DROP FUNCTION vectorgpu_update_probe();
EXCEPTION WHEN undefined_function THEN
	RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
		MESSAGE = 'the library of vectorgpu in this server''s memory is that of an earlier release',
		HINT = 'Install the files of version 0.3.0. If shared_preload_libraries names vectorgpu, restart the server; else connect again.';
END
$script$;

-- Without it l2_norm of a vector would be that of the vector rounded to halfvec.
CREATE FUNCTION l2_norm(vector) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_norm' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- The default recall target of an index on a table that the caller may read, and what the index was measured to reach; NULLs for others: safe for any role.
CREATE FUNCTION vectorgpu_index_reach(
	index regclass,
	OUT recall_target float8,
	OUT recall_reached float8)
	AS 'MODULE_PATHNAME', 'vectorgpu_index_reach' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION vectorgpu_index_reach(regclass) IS
	'default recall target of an index, and the recall that its searches were measured to reach; vectorgpu_indexes shows it';

-- The key columns of an index behind the first, and what they take; NULLs for an index on a table that the caller may not read: safe for any role.
CREATE FUNCTION vectorgpu_index_keys(
	index regclass,
	OUT key_columns int4,
	OUT key_bytes int8)
	AS 'MODULE_PATHNAME', 'vectorgpu_index_keys' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION vectorgpu_index_keys(regclass) IS
	'key columns of an index behind the first, and bytes of their codes; vectorgpu_indexes shows it';

-- Says nothing of any index's contents: safe for everybody.
CREATE FUNCTION vectorgpu_worker_filters(
	OUT filters_made int8,
	OUT filters_found int8)
	AS 'MODULE_PATHNAME', 'vectorgpu_worker_filters' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION vectorgpu_worker_filters() IS
	'searches of the worker with conditions on key columns; vectorgpu_worker shows it';

-- Several devices of one worker. The names are those of vectorgpu.device; the bytes those of all databases' copies.
CREATE FUNCTION vectorgpu_worker_devices(
	OUT devices text[],
	OUT device_bytes int8[],
	OUT lost_devices text[],
	OUT host_bytes int8)
	AS 'MODULE_PATHNAME', 'vectorgpu_worker_devices' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION vectorgpu_worker_devices() IS
	'bytes of copies in host memory; devices of a worker that has several, and bytes on each; vectorgpu_worker shows it';

-- As vectorgpu_worker_copies(): no contents.
CREATE FUNCTION vectorgpu_worker_copy_devices(
	OUT tablespace oid,
	OUT filenode oid,
	OUT uuid text,
	OUT devices text[],
	OUT device_bytes int8[],
	OUT host_bytes int8)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'vectorgpu_worker_copy_devices' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION vectorgpu_worker_copy_devices() IS
	'where this database''s copies are: bytes in host memory, and on each device of a worker that has several; vectorgpu_indexes shows it';

CREATE OR REPLACE VIEW vectorgpu_worker AS
	SELECT pid, supervisor_pid, ready, engine, device, uptime, restarts, sessions, queued, searches, batches,
		mean_batch_size, latency_p50_us, latency_p99_us, copies, resident_bytes, memory_bytes, evictions, answered,
		shipped_rows, inline_loads, background_loads, background_updates, fallbacks,
		fallback_reasons::pg_catalog.jsonb AS fallback_reasons, filters_made, filters_found,
		devices, device_bytes, lost_devices, host_bytes
	FROM vectorgpu_worker_stats(), vectorgpu_worker_filters(), vectorgpu_worker_devices();

COMMENT ON COLUMN vectorgpu_worker.filters_made IS 'searches with conditions on key columns for which the rows that meet them were found, since it started';
COMMENT ON COLUMN vectorgpu_worker.filters_found IS 'the same whose rows were known from another search';
COMMENT ON COLUMN vectorgpu_worker.devices IS 'devices of vectorgpu.device; NULL: it names only one';
COMMENT ON COLUMN vectorgpu_worker.device_bytes IS 'bytes of copies on each of these';
COMMENT ON COLUMN vectorgpu_worker.lost_devices IS 'those that are not used now: the log says why';
COMMENT ON COLUMN vectorgpu_worker.host_bytes IS 'bytes of copies in host memory: all of them on a CPU, on a GPU those that vectorgpu.worker_memory bounds';

CREATE OR REPLACE VIEW vectorgpu_indexes AS
	SELECT n.nspname AS schema_name, t.relname AS table_name, c.relname AS index_name, a.amname AS access_method,
		s.element, s.metric, s.dimensions, s.rows, s.segment_rows, s.null_rows, s.delta_rows, s.dead_rows, s.segments,
		s.delta_bytes, s.index_bytes, s.manifest_generation, s.tombstone_generation, s.free_blocks, s.leaked_blocks,
		s.format_version, s.is_valid, s.needs_reindex, s.lists, s.list_imbalance, s.list_drift,
		w.resident_bytes, w.manifest_generation AS copy_manifest_generation, w.delta_end AS copy_delta_end,
		w.tombstone_generation AS copy_tombstone_generation, w.loads, w.searches,
		f.fallbacks, f.fallback_reasons::pg_catalog.jsonb AS fallback_reasons,
		r.recall_target, r.recall_reached, keys.key_columns, keys.key_bytes,
		w.devices, w.device_bytes, w.host_bytes
	FROM vectorgpu_index_stats() s
		JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) s.index_oid
		JOIN pg_catalog.pg_index i ON i.indexrelid OPERATOR(pg_catalog.=) c.oid
		JOIN pg_catalog.pg_class t ON t.oid OPERATOR(pg_catalog.=) i.indrelid
		JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
		JOIN pg_catalog.pg_am a ON a.oid OPERATOR(pg_catalog.=) c.relam
		JOIN pg_catalog.pg_database d ON d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
		LEFT JOIN LATERAL (
			SELECT k.*, o.devices, o.device_bytes, o.host_bytes
			FROM vectorgpu_worker_copies() k LEFT JOIN vectorgpu_worker_copy_devices() o
				ON o.tablespace OPERATOR(pg_catalog.=) k.tablespace AND o.filenode OPERATOR(pg_catalog.=) k.filenode
					AND o.uuid OPERATOR(pg_catalog.=) k.uuid
			WHERE k.filenode OPERATOR(pg_catalog.=) pg_catalog.pg_relation_filenode(c.oid)
				AND k.tablespace OPERATOR(pg_catalog.=)
					CASE WHEN c.reltablespace OPERATOR(pg_catalog.=) 0::pg_catalog.oid THEN d.dattablespace ELSE c.reltablespace END
			ORDER BY k.idle LIMIT 1) w ON true
		CROSS JOIN LATERAL vectorgpu_index_fallbacks(c.oid::pg_catalog.regclass) f
		CROSS JOIN LATERAL vectorgpu_index_reach(c.oid::pg_catalog.regclass) r
		CROSS JOIN LATERAL vectorgpu_index_keys(c.oid::pg_catalog.regclass) keys;

COMMENT ON COLUMN vectorgpu_indexes.recall_target IS
	'recall target of scans of a session that has not changed it; NULL: the access method has none';
COMMENT ON COLUMN vectorgpu_indexes.recall_reached IS
	'share of the 10 nearest rows that searches of the largest segment were measured to find, of those that do not look at all rows; scans for a higher target look at all rows; NULL: not measured';
COMMENT ON COLUMN vectorgpu_indexes.key_columns IS
	'key columns behind the first, for conditions inside the index';
COMMENT ON COLUMN vectorgpu_indexes.key_bytes IS
	'bytes of the codes of these columns, in segments and delta';
COMMENT ON COLUMN vectorgpu_indexes.devices IS
	'devices that have the worker''s copy or a part of it, if the worker has several; NULL: it has one, or the copy is in host memory';
COMMENT ON COLUMN vectorgpu_indexes.device_bytes IS
	'bytes of the copy on each of these';
COMMENT ON COLUMN vectorgpu_indexes.host_bytes IS
	'bytes of the copy in host memory: the whole copy, rows whose codes alone have room on the GPU, or what is always there; 0: all of it is on the GPU';

-- Filter classes: operator classes of further key columns, for conditions inside an index. Function 1 names the kind of codes (src/am/keys), 4 compares
-- values of two types or enums, as of btree, 5 hashes one. gpumatch has default classes for texts and arrays to be matched: there their filter classes have to
-- be named. Operators 7 to 9 are those of arrays, whose class is for all that have hashable elements.
DO $script$
DECLARE
	of record; -- a type, or a pair of types of one family
	method text;
BEGIN
	FOR of IN
		SELECT t.type, t.name, t.family, t.functions FROM (VALUES
			('bool', 'bool', NULL, ''),
			('"char"', 'char', NULL, ''),
			('int2', 'int2', 'integer_filter_ops', ''),
			('int4', 'int4', 'integer_filter_ops', ''),
			('int8', 'int8', 'integer_filter_ops', ''),
			('oid', 'oid', NULL, ''),
			('float4', 'float4', 'float_filter_ops', ''),
			('float8', 'float8', 'float_filter_ops', ''),
			('date', 'date', 'datetime_filter_ops', ''),
			('time', 'time', NULL, ''),
			('timestamp', 'timestamp', 'datetime_filter_ops', ''),
			('timestamptz', 'timestamptz', 'datetime_filter_ops', ''),
			('numeric', 'numeric', NULL, ''),
			('uuid', 'uuid', NULL, ''),
			('text', 'text', NULL, ', FUNCTION 5 pg_catalog.hashtextextended(pg_catalog.text, pg_catalog.int8)'),
			('bytea', 'bytea', NULL, ', FUNCTION 5 (pg_catalog.bytea, pg_catalog.bytea) pg_catalog.hashvarlenaextended(pg_catalog.internal, pg_catalog.int8)'),
			('inet', 'inet', NULL, ', FUNCTION 5 pg_catalog.hashinetextended(pg_catalog.inet, pg_catalog.int8)'),
			('anyenum', 'enum', NULL, ', FUNCTION 4 pg_catalog.enum_cmp(pg_catalog.anyenum, pg_catalog.anyenum)')) t (type, name, family, functions)
	LOOP
		EXECUTE pg_catalog.format('CREATE FUNCTION %s_filter_shape() RETURNS pg_catalog.int4 AS %L, %L LANGUAGE C IMMUTABLE PARALLEL SAFE',
			of.name, 'MODULE_PATHNAME', pg_catalog.concat('vectorgpu_shape_filter_', of.name));
		FOREACH method IN ARRAY ARRAY['gpuflat', 'gpuivf', 'gpugraph', 'gpumatch'] LOOP
			IF of.name OPERATOR(pg_catalog.=) ANY ('{int2,float4,date}'::pg_catalog.text[]) THEN
				EXECUTE pg_catalog.format('CREATE OPERATOR FAMILY %s USING %s', of.family, method);
			END IF;
			EXECUTE pg_catalog.format('CREATE OPERATOR CLASS %1$s_filter_ops %2$s FOR TYPE pg_catalog.%3$s USING %4$s %5$s AS
					OPERATOR 1 pg_catalog.<, OPERATOR 2 pg_catalog.<=, OPERATOR 3 pg_catalog.=, OPERATOR 4 pg_catalog.>=,
					OPERATOR 5 pg_catalog.>, OPERATOR 6 pg_catalog.<>, FUNCTION 1 %1$s_filter_shape()%6$s',
				of.name,
				CASE WHEN method OPERATOR(pg_catalog.=) 'gpumatch' AND of.name OPERATOR(pg_catalog.=) 'text' THEN '' ELSE 'DEFAULT' END,
				of.type, method, pg_catalog.concat('FAMILY ' OPERATOR(pg_catalog.||) of.family), of.functions);
		END LOOP;
	END LOOP;
	FOR of IN
		SELECT t.family, t.a, t.b, t.compare FROM (VALUES
			('integer', 'int2', 'int4', 'btint24cmp'), ('integer', 'int2', 'int8', 'btint28cmp'), ('integer', 'int4', 'int2', 'btint42cmp'),
			('integer', 'int4', 'int8', 'btint48cmp'), ('integer', 'int8', 'int2', 'btint82cmp'), ('integer', 'int8', 'int4', 'btint84cmp'),
			('float', 'float4', 'float8', 'btfloat48cmp'), ('float', 'float8', 'float4', 'btfloat84cmp'),
			('datetime', 'date', 'timestamp', 'date_cmp_timestamp'), ('datetime', 'date', 'timestamptz', 'date_cmp_timestamptz'),
			('datetime', 'timestamp', 'date', 'timestamp_cmp_date'), ('datetime', 'timestamp', 'timestamptz', 'timestamp_cmp_timestamptz'),
			('datetime', 'timestamptz', 'date', 'timestamptz_cmp_date'),
			('datetime', 'timestamptz', 'timestamp', 'timestamptz_cmp_timestamp')) t (family, a, b, compare)
	LOOP
		FOREACH method IN ARRAY ARRAY['gpuflat', 'gpuivf', 'gpugraph', 'gpumatch'] LOOP
			EXECUTE pg_catalog.format('ALTER OPERATOR FAMILY %1$s_filter_ops USING %2$s ADD
					OPERATOR 1 pg_catalog.< (%3$s), OPERATOR 2 pg_catalog.<= (%3$s), OPERATOR 3 pg_catalog.= (%3$s), OPERATOR 4 pg_catalog.>= (%3$s),
					OPERATOR 5 pg_catalog.> (%3$s), OPERATOR 6 pg_catalog.<> (%3$s), FUNCTION 4 (%3$s) pg_catalog.%4$s(%3$s)',
				of.family, method, pg_catalog.format('pg_catalog.%s, pg_catalog.%s', of.a, of.b), of.compare);
		END LOOP;
	END LOOP;
	CREATE FUNCTION array_filter_shape() RETURNS pg_catalog.int4 AS 'MODULE_PATHNAME', 'vectorgpu_shape_filter_array' LANGUAGE C IMMUTABLE PARALLEL SAFE;
	FOREACH method IN ARRAY ARRAY['gpuflat', 'gpuivf', 'gpugraph', 'gpumatch'] LOOP
		EXECUTE pg_catalog.format('CREATE OPERATOR CLASS array_filter_ops %s FOR TYPE pg_catalog.anyarray USING %s AS
				OPERATOR 3 pg_catalog.=, OPERATOR 7 pg_catalog.&&, OPERATOR 8 pg_catalog.@>, OPERATOR 9 pg_catalog.<@, FUNCTION 1 array_filter_shape()',
			CASE WHEN method OPERATOR(pg_catalog.=) 'gpumatch' THEN '' ELSE 'DEFAULT' END, method);
	END LOOP;
END
$script$;

-- The type sparsevec, pgvector's: the elements that are not 0, by their indices

CREATE TYPE sparsevec;

CREATE FUNCTION sparsevec_in(cstring, oid, integer) RETURNS sparsevec
	AS 'MODULE_PATHNAME', 'vectorgpu_sparsevec_in' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION sparsevec_out(sparsevec) RETURNS cstring
	AS 'MODULE_PATHNAME', 'vectorgpu_sparsevec_out' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION sparsevec_typmod_in(cstring[]) RETURNS integer
	AS 'MODULE_PATHNAME', 'vectorgpu_sparsevec_typmod_in' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION sparsevec_recv(internal, oid, integer) RETURNS sparsevec
	AS 'MODULE_PATHNAME', 'vectorgpu_sparsevec_recv' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION sparsevec_send(sparsevec) RETURNS bytea
	AS 'MODULE_PATHNAME', 'vectorgpu_sparsevec_send' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE TYPE sparsevec (
	INPUT = sparsevec_in,
	OUTPUT = sparsevec_out,
	TYPMOD_IN = sparsevec_typmod_in,
	RECEIVE = sparsevec_recv,
	SEND = sparsevec_send,
	STORAGE = external
);

CREATE FUNCTION l2_distance(sparsevec, sparsevec) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_sparsevec_l2_distance' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION inner_product(sparsevec, sparsevec) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_sparsevec_inner_product' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION cosine_distance(sparsevec, sparsevec) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_sparsevec_cosine_distance' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION l1_distance(sparsevec, sparsevec) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_sparsevec_l1_distance' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION l2_norm(sparsevec) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_sparsevec_norm' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION l2_normalize(sparsevec) RETURNS sparsevec
	AS 'MODULE_PATHNAME', 'vectorgpu_sparsevec_l2_normalize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION sparsevec_lt(sparsevec, sparsevec) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_sparsevec_lt' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION sparsevec_le(sparsevec, sparsevec) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_sparsevec_le' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION sparsevec_eq(sparsevec, sparsevec) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_sparsevec_eq' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION sparsevec_ne(sparsevec, sparsevec) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_sparsevec_ne' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION sparsevec_ge(sparsevec, sparsevec) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_sparsevec_ge' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION sparsevec_gt(sparsevec, sparsevec) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_sparsevec_gt' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION sparsevec_cmp(sparsevec, sparsevec) RETURNS integer
	AS 'MODULE_PATHNAME', 'vectorgpu_sparsevec_cmp' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION sparsevec_l2_squared_distance(sparsevec, sparsevec) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_sparsevec_l2_squared_distance' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION sparsevec_negative_inner_product(sparsevec, sparsevec) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_sparsevec_negative_inner_product' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION sparsevec(sparsevec, integer, boolean) RETURNS sparsevec
	AS 'MODULE_PATHNAME', 'vectorgpu_sparsevec_typmod' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION array_to_sparsevec(integer[], integer, boolean) RETURNS sparsevec
	AS 'MODULE_PATHNAME', 'vectorgpu_sparsevec_from_array' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION array_to_sparsevec(real[], integer, boolean) RETURNS sparsevec
	AS 'MODULE_PATHNAME', 'vectorgpu_sparsevec_from_array' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION array_to_sparsevec(double precision[], integer, boolean) RETURNS sparsevec
	AS 'MODULE_PATHNAME', 'vectorgpu_sparsevec_from_array' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION array_to_sparsevec(numeric[], integer, boolean) RETURNS sparsevec
	AS 'MODULE_PATHNAME', 'vectorgpu_sparsevec_from_array' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION vector_to_sparsevec(vector, integer, boolean) RETURNS sparsevec
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_to_sparsevec' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION sparsevec_to_vector(sparsevec, integer, boolean) RETURNS vector
	AS 'MODULE_PATHNAME', 'vectorgpu_sparsevec_to_vector' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION halfvec_to_sparsevec(halfvec, integer, boolean) RETURNS sparsevec
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_to_sparsevec' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION sparsevec_to_halfvec(sparsevec, integer, boolean) RETURNS halfvec
	AS 'MODULE_PATHNAME', 'vectorgpu_sparsevec_to_halfvec' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE CAST (sparsevec AS sparsevec)
	WITH FUNCTION sparsevec(sparsevec, integer, boolean) AS IMPLICIT;

CREATE CAST (integer[] AS sparsevec)
	WITH FUNCTION array_to_sparsevec(integer[], integer, boolean) AS ASSIGNMENT;

CREATE CAST (real[] AS sparsevec)
	WITH FUNCTION array_to_sparsevec(real[], integer, boolean) AS ASSIGNMENT;

CREATE CAST (double precision[] AS sparsevec)
	WITH FUNCTION array_to_sparsevec(double precision[], integer, boolean) AS ASSIGNMENT;

CREATE CAST (numeric[] AS sparsevec)
	WITH FUNCTION array_to_sparsevec(numeric[], integer, boolean) AS ASSIGNMENT;

CREATE CAST (vector AS sparsevec)
	WITH FUNCTION vector_to_sparsevec(vector, integer, boolean) AS IMPLICIT;

CREATE CAST (sparsevec AS vector)
	WITH FUNCTION sparsevec_to_vector(sparsevec, integer, boolean) AS ASSIGNMENT;

CREATE CAST (halfvec AS sparsevec)
	WITH FUNCTION halfvec_to_sparsevec(halfvec, integer, boolean) AS IMPLICIT;

CREATE CAST (sparsevec AS halfvec)
	WITH FUNCTION sparsevec_to_halfvec(sparsevec, integer, boolean) AS ASSIGNMENT;

CREATE OPERATOR <-> (
	LEFTARG = sparsevec, RIGHTARG = sparsevec, FUNCTION = l2_distance,
	COMMUTATOR = <->
);

CREATE OPERATOR <#> (
	LEFTARG = sparsevec, RIGHTARG = sparsevec, FUNCTION = sparsevec_negative_inner_product,
	COMMUTATOR = <#>
);

CREATE OPERATOR <=> (
	LEFTARG = sparsevec, RIGHTARG = sparsevec, FUNCTION = cosine_distance,
	COMMUTATOR = <=>
);

CREATE OPERATOR <+> (
	LEFTARG = sparsevec, RIGHTARG = sparsevec, FUNCTION = l1_distance,
	COMMUTATOR = <+>
);

CREATE OPERATOR < (
	LEFTARG = sparsevec, RIGHTARG = sparsevec, FUNCTION = sparsevec_lt,
	COMMUTATOR = >, NEGATOR = >=,
	RESTRICT = scalarltsel, JOIN = scalarltjoinsel
);

CREATE OPERATOR <= (
	LEFTARG = sparsevec, RIGHTARG = sparsevec, FUNCTION = sparsevec_le,
	COMMUTATOR = >=, NEGATOR = >,
	RESTRICT = scalarlesel, JOIN = scalarlejoinsel
);

CREATE OPERATOR = (
	LEFTARG = sparsevec, RIGHTARG = sparsevec, FUNCTION = sparsevec_eq,
	COMMUTATOR = =, NEGATOR = <>,
	RESTRICT = eqsel, JOIN = eqjoinsel
);

CREATE OPERATOR <> (
	LEFTARG = sparsevec, RIGHTARG = sparsevec, FUNCTION = sparsevec_ne,
	COMMUTATOR = <>, NEGATOR = =,
	RESTRICT = neqsel, JOIN = neqjoinsel
);

CREATE OPERATOR >= (
	LEFTARG = sparsevec, RIGHTARG = sparsevec, FUNCTION = sparsevec_ge,
	COMMUTATOR = <=, NEGATOR = <,
	RESTRICT = scalargesel, JOIN = scalargejoinsel
);

CREATE OPERATOR > (
	LEFTARG = sparsevec, RIGHTARG = sparsevec, FUNCTION = sparsevec_gt,
	COMMUTATOR = <, NEGATOR = <=,
	RESTRICT = scalargtsel, JOIN = scalargtjoinsel
);

CREATE OPERATOR CLASS sparsevec_ops
	DEFAULT FOR TYPE sparsevec USING btree AS
	OPERATOR 1 <,
	OPERATOR 2 <=,
	OPERATOR 3 =,
	OPERATOR 4 >=,
	OPERATOR 5 >,
	FUNCTION 1 sparsevec_cmp(sparsevec, sparsevec);

CREATE FUNCTION sparsevec_l2_shape() RETURNS int4
	AS 'MODULE_PATHNAME', 'vectorgpu_shape_sparsevec_l2' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION sparsevec_ip_shape() RETURNS int4
	AS 'MODULE_PATHNAME', 'vectorgpu_shape_sparsevec_ip' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION sparsevec_cosine_shape() RETURNS int4
	AS 'MODULE_PATHNAME', 'vectorgpu_shape_sparsevec_cosine' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION sparsevec_l1_shape() RETURNS int4
	AS 'MODULE_PATHNAME', 'vectorgpu_shape_sparsevec_l1' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE OPERATOR CLASS sparsevec_l2_ops
	DEFAULT FOR TYPE sparsevec USING gpuflat AS
	OPERATOR 1 <-> (sparsevec, sparsevec) FOR ORDER BY float_ops,
	FUNCTION 1 sparsevec_l2_shape();

CREATE OPERATOR CLASS sparsevec_ip_ops
	FOR TYPE sparsevec USING gpuflat AS
	OPERATOR 1 <#> (sparsevec, sparsevec) FOR ORDER BY float_ops,
	FUNCTION 1 sparsevec_ip_shape();

CREATE OPERATOR CLASS sparsevec_cosine_ops
	FOR TYPE sparsevec USING gpuflat AS
	OPERATOR 1 <=> (sparsevec, sparsevec) FOR ORDER BY float_ops,
	FUNCTION 1 sparsevec_cosine_shape();

CREATE OPERATOR CLASS sparsevec_l1_ops
	FOR TYPE sparsevec USING gpuflat AS
	OPERATOR 1 <+> (sparsevec, sparsevec) FOR ORDER BY float_ops,
	FUNCTION 1 sparsevec_l1_shape();

-- Range search under a name; the planner puts the operators in its place, so that an index serves it.
CREATE FUNCTION vectorgpu_within(v vector, query vector, radius float8) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN v <-> query < radius;

CREATE FUNCTION vectorgpu_within(v halfvec, query halfvec, radius float8) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN v <-> query < radius;

CREATE FUNCTION vectorgpu_within(v sparsevec, query sparsevec, radius float8) RETURNS boolean
	LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN v <-> query < radius;

CREATE FUNCTION vectorgpu_join(
	index regclass,
	queries regclass,
	query_column name,
	k int4,
	OUT query tid,
	OUT tid tid,
	OUT rank int4,
	OUT distance float8)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'vectorgpu_join' LANGUAGE C STABLE STRICT PARALLEL UNSAFE COST 1000 ROWS 100000;

COMMENT ON FUNCTION vectorgpu_join(regclass, regclass, name, int4) IS
	'for each row of a table of queries the k nearest rows of an index''s table, as the index finds them, in the order of the queries';

REVOKE ALL ON FUNCTION vectorgpu_join(regclass, regclass, name, int4) FROM PUBLIC;
