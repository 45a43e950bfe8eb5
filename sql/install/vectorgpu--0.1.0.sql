-- vectorgpu 0.1.0: install script
\echo Use "CREATE EXTENSION vectorgpu" to load this file. \quit

-- Two extensions contain these objects, vectorgpu and, under pgvector's names, vector; and pgvector has types of these names.

DO $script$
DECLARE
	owner pg_catalog.name;  -- the extension that has the objects
BEGIN
	SELECT e.extname INTO owner FROM pg_catalog.pg_am a
		JOIN pg_catalog.pg_depend d ON d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_am'::pg_catalog.regclass::pg_catalog.oid
			AND d.objid OPERATOR(pg_catalog.=) a.oid AND d.deptype OPERATOR(pg_catalog.=) 'e'::pg_catalog."char"
		JOIN pg_catalog.pg_extension e ON e.oid OPERATOR(pg_catalog.=) d.refobjid
		WHERE a.amname OPERATOR(pg_catalog.=) 'gpuflat'::pg_catalog.name;
	IF FOUND THEN
		RAISE EXCEPTION USING
			ERRCODE = 'duplicate_object',
			MESSAGE = pg_catalog.format('the extension "%s" of this database has the objects of vectorgpu already', owner),
			DETAIL = 'The extension "vectorgpu", and the extension "vector" that comes with it, contain the same types and access methods.',
			HINT = CASE WHEN owner OPERATOR(pg_catalog.=) 'vector'::pg_catalog.name
				THEN 'This "vector" is not pgvector: it needs neither "vectorgpu" nor "vectorgpu_pgvector" beside it, and columns of its types can have all indexes of vectorgpu.'
				ELSE 'Use gpugraph for hnsw and gpuivf for ivfflat. To have the extension "vector" instead, drop "vectorgpu" first.' END;
	END IF;
	IF EXISTS (SELECT FROM pg_catalog.pg_type t WHERE t.typname OPERATOR(pg_catalog.=) ANY ('{vector,halfvec}'::pg_catalog.name[])
			AND t.typnamespace OPERATOR(pg_catalog.=) (SELECT n.oid FROM pg_catalog.pg_namespace n WHERE n.nspname OPERATOR(pg_catalog.=) pg_catalog.current_schema())) THEN
		RAISE EXCEPTION USING
			ERRCODE = 'duplicate_object',
			MESSAGE = pg_catalog.format('schema "%s" has a type "vector" or "halfvec" already', pg_catalog.current_schema()),
			DETAIL = 'The extension has types of these names. So has pgvector.',
			HINT = 'Beside pgvector: CREATE SCHEMA vectorgpu; CREATE EXTENSION vectorgpu SCHEMA vectorgpu; CREATE EXTENSION vectorgpu_pgvector; then columns of pgvector can have indexes of vectorgpu.';
	END IF;
END
$script$;

-- Types

CREATE TYPE vector;

CREATE FUNCTION vector_in(cstring, oid, integer) RETURNS vector
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_in' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION vector_out(vector) RETURNS cstring
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_out' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION vector_typmod_in(cstring[]) RETURNS integer
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_typmod_in' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION vector_recv(internal, oid, integer) RETURNS vector
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_recv' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION vector_send(vector) RETURNS bytea
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_send' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE TYPE vector (
	INPUT = vector_in,
	OUTPUT = vector_out,
	TYPMOD_IN = vector_typmod_in,
	RECEIVE = vector_recv,
	SEND = vector_send,
	STORAGE = external
);

CREATE TYPE halfvec;

CREATE FUNCTION halfvec_in(cstring, oid, integer) RETURNS halfvec
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_in' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION halfvec_out(halfvec) RETURNS cstring
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_out' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION halfvec_typmod_in(cstring[]) RETURNS integer
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_typmod_in' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION halfvec_recv(internal, oid, integer) RETURNS halfvec
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_recv' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION halfvec_send(halfvec) RETURNS bytea
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_send' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE TYPE halfvec (
	INPUT = halfvec_in,
	OUTPUT = halfvec_out,
	TYPMOD_IN = halfvec_typmod_in,
	RECEIVE = halfvec_recv,
	SEND = halfvec_send,
	STORAGE = external
);

-- What a distance costs: for the planner

CREATE FUNCTION vector_distance_support(internal) RETURNS internal
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_distance_support' LANGUAGE C STRICT PARALLEL SAFE;

CREATE FUNCTION halfvec_distance_support(internal) RETURNS internal
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_distance_support' LANGUAGE C STRICT PARALLEL SAFE;

CREATE FUNCTION bit_distance_support(internal) RETURNS internal
	AS 'MODULE_PATHNAME', 'vectorgpu_bit_distance_support' LANGUAGE C STRICT PARALLEL SAFE;

-- Functions on vector and halfvec

CREATE FUNCTION l2_distance(vector, vector) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_l2_distance' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	SUPPORT vector_distance_support;

CREATE FUNCTION inner_product(vector, vector) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_inner_product' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	SUPPORT vector_distance_support;

CREATE FUNCTION cosine_distance(vector, vector) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_cosine_distance' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	SUPPORT vector_distance_support;

CREATE FUNCTION l1_distance(vector, vector) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_l1_distance' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	SUPPORT vector_distance_support;

CREATE FUNCTION vector_dims(vector) RETURNS integer
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_dims' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION vector_norm(vector) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_norm' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION l2_normalize(vector) RETURNS vector
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_l2_normalize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION binary_quantize(vector) RETURNS bit
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_binary_quantize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION subvector(vector, integer, integer) RETURNS vector
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_subvector' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION l2_distance(halfvec, halfvec) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_l2_distance' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	SUPPORT halfvec_distance_support;

CREATE FUNCTION inner_product(halfvec, halfvec) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_inner_product' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	SUPPORT halfvec_distance_support;

CREATE FUNCTION cosine_distance(halfvec, halfvec) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_cosine_distance' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	SUPPORT halfvec_distance_support;

CREATE FUNCTION l1_distance(halfvec, halfvec) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_l1_distance' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	SUPPORT halfvec_distance_support;

CREATE FUNCTION vector_dims(halfvec) RETURNS integer
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_dims' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION l2_norm(halfvec) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_norm' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION l2_normalize(halfvec) RETURNS halfvec
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_l2_normalize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION binary_quantize(halfvec) RETURNS bit
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_binary_quantize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION subvector(halfvec, integer, integer) RETURNS halfvec
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_subvector' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- Functions behind operators, operator classes and aggregates

CREATE FUNCTION vector_add(vector, vector) RETURNS vector
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_add' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION vector_sub(vector, vector) RETURNS vector
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_sub' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION vector_mul(vector, vector) RETURNS vector
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_mul' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION vector_concat(vector, vector) RETURNS vector
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_concat' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION vector_lt(vector, vector) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_lt' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION vector_le(vector, vector) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_le' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION vector_eq(vector, vector) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_eq' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION vector_ne(vector, vector) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_ne' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION vector_ge(vector, vector) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_ge' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION vector_gt(vector, vector) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_gt' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION vector_cmp(vector, vector) RETURNS integer
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_cmp' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION vector_l2_squared_distance(vector, vector) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_l2_squared_distance' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	SUPPORT vector_distance_support;

CREATE FUNCTION vector_negative_inner_product(vector, vector) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_negative_inner_product' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	SUPPORT vector_distance_support;

CREATE FUNCTION vector_spherical_distance(vector, vector) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_spherical_distance' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	SUPPORT vector_distance_support;

CREATE FUNCTION vector_accum(double precision[], vector) RETURNS double precision[]
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_accum' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION vector_avg(double precision[]) RETURNS vector
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_avg' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION vector_combine(double precision[], double precision[]) RETURNS double precision[]
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_combine' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION halfvec_add(halfvec, halfvec) RETURNS halfvec
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_add' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION halfvec_sub(halfvec, halfvec) RETURNS halfvec
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_sub' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION halfvec_mul(halfvec, halfvec) RETURNS halfvec
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_mul' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION halfvec_concat(halfvec, halfvec) RETURNS halfvec
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_concat' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION halfvec_lt(halfvec, halfvec) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_lt' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION halfvec_le(halfvec, halfvec) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_le' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION halfvec_eq(halfvec, halfvec) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_eq' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION halfvec_ne(halfvec, halfvec) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_ne' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION halfvec_ge(halfvec, halfvec) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_ge' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION halfvec_gt(halfvec, halfvec) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_gt' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION halfvec_cmp(halfvec, halfvec) RETURNS integer
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_cmp' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION halfvec_l2_squared_distance(halfvec, halfvec) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_l2_squared_distance' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	SUPPORT halfvec_distance_support;

CREATE FUNCTION halfvec_negative_inner_product(halfvec, halfvec) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_negative_inner_product' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	SUPPORT halfvec_distance_support;

CREATE FUNCTION halfvec_spherical_distance(halfvec, halfvec) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_spherical_distance' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	SUPPORT halfvec_distance_support;

CREATE FUNCTION halfvec_accum(double precision[], halfvec) RETURNS double precision[]
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_accum' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION halfvec_avg(double precision[]) RETURNS halfvec
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_avg' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION halfvec_combine(double precision[], double precision[]) RETURNS double precision[]
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_combine' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- Aggregates

CREATE AGGREGATE avg(vector) (
	SFUNC = vector_accum,
	STYPE = double precision[],
	FINALFUNC = vector_avg,
	COMBINEFUNC = vector_combine,
	INITCOND = '{0}',
	PARALLEL = SAFE
);

CREATE AGGREGATE sum(vector) (
	SFUNC = vector_add,
	STYPE = vector,
	COMBINEFUNC = vector_add,
	PARALLEL = SAFE
);

CREATE AGGREGATE avg(halfvec) (
	SFUNC = halfvec_accum,
	STYPE = double precision[],
	FINALFUNC = halfvec_avg,
	COMBINEFUNC = halfvec_combine,
	INITCOND = '{0}',
	PARALLEL = SAFE
);

CREATE AGGREGATE sum(halfvec) (
	SFUNC = halfvec_add,
	STYPE = halfvec,
	COMBINEFUNC = halfvec_add,
	PARALLEL = SAFE
);

-- Cast functions

CREATE FUNCTION vector(vector, integer, boolean) RETURNS vector
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_typmod' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION array_to_vector(integer[], integer, boolean) RETURNS vector
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_from_array' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION array_to_vector(real[], integer, boolean) RETURNS vector
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_from_array' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION array_to_vector(double precision[], integer, boolean) RETURNS vector
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_from_array' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION array_to_vector(numeric[], integer, boolean) RETURNS vector
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_from_array' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION vector_to_float4(vector, integer, boolean) RETURNS real[]
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_to_float4' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION halfvec(halfvec, integer, boolean) RETURNS halfvec
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_typmod' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION array_to_halfvec(integer[], integer, boolean) RETURNS halfvec
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_from_array' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION array_to_halfvec(real[], integer, boolean) RETURNS halfvec
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_from_array' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION array_to_halfvec(double precision[], integer, boolean) RETURNS halfvec
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_from_array' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION array_to_halfvec(numeric[], integer, boolean) RETURNS halfvec
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_from_array' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION halfvec_to_float4(halfvec, integer, boolean) RETURNS real[]
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_to_float4' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION vector_to_halfvec(vector, integer, boolean) RETURNS halfvec
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_to_halfvec' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION halfvec_to_vector(halfvec, integer, boolean) RETURNS vector
	AS 'MODULE_PATHNAME', 'vectorgpu_halfvec_to_vector' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- Casts

CREATE CAST (vector AS vector)
	WITH FUNCTION vector(vector, integer, boolean) AS IMPLICIT;

CREATE CAST (integer[] AS vector)
	WITH FUNCTION array_to_vector(integer[], integer, boolean) AS ASSIGNMENT;

CREATE CAST (real[] AS vector)
	WITH FUNCTION array_to_vector(real[], integer, boolean) AS ASSIGNMENT;

CREATE CAST (double precision[] AS vector)
	WITH FUNCTION array_to_vector(double precision[], integer, boolean) AS ASSIGNMENT;

CREATE CAST (numeric[] AS vector)
	WITH FUNCTION array_to_vector(numeric[], integer, boolean) AS ASSIGNMENT;

CREATE CAST (vector AS real[])
	WITH FUNCTION vector_to_float4(vector, integer, boolean) AS IMPLICIT;

CREATE CAST (halfvec AS halfvec)
	WITH FUNCTION halfvec(halfvec, integer, boolean) AS IMPLICIT;

CREATE CAST (integer[] AS halfvec)
	WITH FUNCTION array_to_halfvec(integer[], integer, boolean) AS ASSIGNMENT;

CREATE CAST (real[] AS halfvec)
	WITH FUNCTION array_to_halfvec(real[], integer, boolean) AS ASSIGNMENT;

CREATE CAST (double precision[] AS halfvec)
	WITH FUNCTION array_to_halfvec(double precision[], integer, boolean) AS ASSIGNMENT;

CREATE CAST (numeric[] AS halfvec)
	WITH FUNCTION array_to_halfvec(numeric[], integer, boolean) AS ASSIGNMENT;

CREATE CAST (halfvec AS real[])
	WITH FUNCTION halfvec_to_float4(halfvec, integer, boolean) AS ASSIGNMENT;

CREATE CAST (vector AS halfvec)
	WITH FUNCTION vector_to_halfvec(vector, integer, boolean) AS IMPLICIT;

CREATE CAST (halfvec AS vector)
	WITH FUNCTION halfvec_to_vector(halfvec, integer, boolean) AS ASSIGNMENT;

-- Operators

CREATE OPERATOR <-> (
	LEFTARG = vector, RIGHTARG = vector, FUNCTION = l2_distance,
	COMMUTATOR = <->
);

CREATE OPERATOR <#> (
	LEFTARG = vector, RIGHTARG = vector, FUNCTION = vector_negative_inner_product,
	COMMUTATOR = <#>
);

CREATE OPERATOR <=> (
	LEFTARG = vector, RIGHTARG = vector, FUNCTION = cosine_distance,
	COMMUTATOR = <=>
);

CREATE OPERATOR <+> (
	LEFTARG = vector, RIGHTARG = vector, FUNCTION = l1_distance,
	COMMUTATOR = <+>
);

CREATE OPERATOR + (
	LEFTARG = vector, RIGHTARG = vector, FUNCTION = vector_add,
	COMMUTATOR = +
);

CREATE OPERATOR - (
	LEFTARG = vector, RIGHTARG = vector, FUNCTION = vector_sub
);

CREATE OPERATOR * (
	LEFTARG = vector, RIGHTARG = vector, FUNCTION = vector_mul,
	COMMUTATOR = *
);

CREATE OPERATOR || (
	LEFTARG = vector, RIGHTARG = vector, FUNCTION = vector_concat
);

CREATE OPERATOR < (
	LEFTARG = vector, RIGHTARG = vector, FUNCTION = vector_lt,
	COMMUTATOR = >, NEGATOR = >=,
	RESTRICT = scalarltsel, JOIN = scalarltjoinsel
);

CREATE OPERATOR <= (
	LEFTARG = vector, RIGHTARG = vector, FUNCTION = vector_le,
	COMMUTATOR = >=, NEGATOR = >,
	RESTRICT = scalarlesel, JOIN = scalarlejoinsel
);

CREATE OPERATOR = (
	LEFTARG = vector, RIGHTARG = vector, FUNCTION = vector_eq,
	COMMUTATOR = =, NEGATOR = <>,
	RESTRICT = eqsel, JOIN = eqjoinsel
);

CREATE OPERATOR <> (
	LEFTARG = vector, RIGHTARG = vector, FUNCTION = vector_ne,
	COMMUTATOR = <>, NEGATOR = =,
	RESTRICT = neqsel, JOIN = neqjoinsel
);

CREATE OPERATOR >= (
	LEFTARG = vector, RIGHTARG = vector, FUNCTION = vector_ge,
	COMMUTATOR = <=, NEGATOR = <,
	RESTRICT = scalargesel, JOIN = scalargejoinsel
);

CREATE OPERATOR > (
	LEFTARG = vector, RIGHTARG = vector, FUNCTION = vector_gt,
	COMMUTATOR = <, NEGATOR = <=,
	RESTRICT = scalargtsel, JOIN = scalargtjoinsel
);

CREATE OPERATOR <-> (
	LEFTARG = halfvec, RIGHTARG = halfvec, FUNCTION = l2_distance,
	COMMUTATOR = <->
);

CREATE OPERATOR <#> (
	LEFTARG = halfvec, RIGHTARG = halfvec, FUNCTION = halfvec_negative_inner_product,
	COMMUTATOR = <#>
);

CREATE OPERATOR <=> (
	LEFTARG = halfvec, RIGHTARG = halfvec, FUNCTION = cosine_distance,
	COMMUTATOR = <=>
);

CREATE OPERATOR <+> (
	LEFTARG = halfvec, RIGHTARG = halfvec, FUNCTION = l1_distance,
	COMMUTATOR = <+>
);

CREATE OPERATOR + (
	LEFTARG = halfvec, RIGHTARG = halfvec, FUNCTION = halfvec_add,
	COMMUTATOR = +
);

CREATE OPERATOR - (
	LEFTARG = halfvec, RIGHTARG = halfvec, FUNCTION = halfvec_sub
);

CREATE OPERATOR * (
	LEFTARG = halfvec, RIGHTARG = halfvec, FUNCTION = halfvec_mul,
	COMMUTATOR = *
);

CREATE OPERATOR || (
	LEFTARG = halfvec, RIGHTARG = halfvec, FUNCTION = halfvec_concat
);

CREATE OPERATOR < (
	LEFTARG = halfvec, RIGHTARG = halfvec, FUNCTION = halfvec_lt,
	COMMUTATOR = >, NEGATOR = >=,
	RESTRICT = scalarltsel, JOIN = scalarltjoinsel
);

CREATE OPERATOR <= (
	LEFTARG = halfvec, RIGHTARG = halfvec, FUNCTION = halfvec_le,
	COMMUTATOR = >=, NEGATOR = >,
	RESTRICT = scalarlesel, JOIN = scalarlejoinsel
);

CREATE OPERATOR = (
	LEFTARG = halfvec, RIGHTARG = halfvec, FUNCTION = halfvec_eq,
	COMMUTATOR = =, NEGATOR = <>,
	RESTRICT = eqsel, JOIN = eqjoinsel
);

CREATE OPERATOR <> (
	LEFTARG = halfvec, RIGHTARG = halfvec, FUNCTION = halfvec_ne,
	COMMUTATOR = <>, NEGATOR = =,
	RESTRICT = neqsel, JOIN = neqjoinsel
);

CREATE OPERATOR >= (
	LEFTARG = halfvec, RIGHTARG = halfvec, FUNCTION = halfvec_ge,
	COMMUTATOR = <=, NEGATOR = <,
	RESTRICT = scalargesel, JOIN = scalargejoinsel
);

CREATE OPERATOR > (
	LEFTARG = halfvec, RIGHTARG = halfvec, FUNCTION = halfvec_gt,
	COMMUTATOR = <, NEGATOR = <=,
	RESTRICT = scalargtsel, JOIN = scalargtjoinsel
);

-- Distances of bit

CREATE FUNCTION hamming_distance(bit, bit) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_hamming_distance' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	SUPPORT bit_distance_support;

CREATE FUNCTION jaccard_distance(bit, bit) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_jaccard_distance' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
	SUPPORT bit_distance_support;

CREATE OPERATOR <~> (
	LEFTARG = bit, RIGHTARG = bit, FUNCTION = hamming_distance,
	COMMUTATOR = <~>
);

CREATE OPERATOR <%> (
	LEFTARG = bit, RIGHTARG = bit, FUNCTION = jaccard_distance,
	COMMUTATOR = <%>
);

-- Match count: the number of elements in common

CREATE FUNCTION match_count(integer[], integer[]) RETURNS integer
	AS 'MODULE_PATHNAME', 'vectorgpu_int4_array_match_count' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION match_distance(integer[], integer[]) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_int4_array_match_distance' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION match_at_least(integer[], integer[], integer) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_int4_array_match_at_least' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION match_count(bigint[], bigint[]) RETURNS integer
	AS 'MODULE_PATHNAME', 'vectorgpu_int8_array_match_count' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION match_distance(bigint[], bigint[]) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_int8_array_match_distance' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION match_at_least(bigint[], bigint[], integer) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_int8_array_match_at_least' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION match_count(text[], text[]) RETURNS integer
	AS 'MODULE_PATHNAME', 'vectorgpu_text_array_match_count' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION match_distance(text[], text[]) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_text_array_match_distance' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION match_at_least(text[], text[], integer) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_text_array_match_at_least' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION match_count(uuid[], uuid[]) RETURNS integer
	AS 'MODULE_PATHNAME', 'vectorgpu_uuid_array_match_count' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION match_distance(uuid[], uuid[]) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_uuid_array_match_distance' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION match_at_least(uuid[], uuid[], integer) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_uuid_array_match_at_least' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION match_count(tsvector, tsvector) RETURNS integer
	AS 'MODULE_PATHNAME', 'vectorgpu_tsvector_match_count' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION match_distance(tsvector, tsvector) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_tsvector_match_distance' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION match_at_least(tsvector, tsvector, integer) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_tsvector_match_at_least' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE OPERATOR <#> (
	LEFTARG = integer[], RIGHTARG = integer[], FUNCTION = match_distance,
	COMMUTATOR = <#>
);

CREATE OPERATOR <#> (
	LEFTARG = bigint[], RIGHTARG = bigint[], FUNCTION = match_distance,
	COMMUTATOR = <#>
);

CREATE OPERATOR <#> (
	LEFTARG = text[], RIGHTARG = text[], FUNCTION = match_distance,
	COMMUTATOR = <#>
);

CREATE OPERATOR <#> (
	LEFTARG = uuid[], RIGHTARG = uuid[], FUNCTION = match_distance,
	COMMUTATOR = <#>
);

CREATE OPERATOR <#> (
	LEFTARG = tsvector, RIGHTARG = tsvector, FUNCTION = match_distance,
	COMMUTATOR = <#>
);

-- Types of relational match count

CREATE TYPE matchrow;

CREATE FUNCTION matchrow_in(cstring) RETURNS matchrow
	AS 'MODULE_PATHNAME', 'vectorgpu_matchrow_in' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION matchrow_out(matchrow) RETURNS cstring
	AS 'MODULE_PATHNAME', 'vectorgpu_matchrow_out' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION matchrow_recv(internal) RETURNS matchrow
	AS 'MODULE_PATHNAME', 'vectorgpu_matchrow_recv' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION matchrow_send(matchrow) RETURNS bytea
	AS 'MODULE_PATHNAME', 'vectorgpu_matchrow_send' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE TYPE matchrow (
	INPUT = matchrow_in,
	OUTPUT = matchrow_out,
	RECEIVE = matchrow_recv,
	SEND = matchrow_send,
	STORAGE = extended
);

CREATE TYPE matchquery;

CREATE FUNCTION matchquery_in(cstring) RETURNS matchquery
	AS 'MODULE_PATHNAME', 'vectorgpu_matchquery_in' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION matchquery_out(matchquery) RETURNS cstring
	AS 'MODULE_PATHNAME', 'vectorgpu_matchquery_out' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION matchquery_recv(internal) RETURNS matchquery
	AS 'MODULE_PATHNAME', 'vectorgpu_matchquery_recv' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION matchquery_send(matchquery) RETURNS bytea
	AS 'MODULE_PATHNAME', 'vectorgpu_matchquery_send' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE TYPE matchquery (
	INPUT = matchquery_in,
	OUTPUT = matchquery_out,
	RECEIVE = matchquery_recv,
	SEND = matchquery_send,
	STORAGE = extended
);

CREATE FUNCTION matchrow(VARIADIC "any") RETURNS matchrow
	AS 'MODULE_PATHNAME', 'vectorgpu_matchrow' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION matchquery(VARIADIC "any") RETURNS matchquery
	AS 'MODULE_PATHNAME', 'vectorgpu_matchquery' LANGUAGE C IMMUTABLE PARALLEL SAFE;

-- A call with one string is no cast: without these the parser would read matchquery('Private') as the type's text form

CREATE FUNCTION matchrow(unknown) RETURNS matchrow
	AS 'MODULE_PATHNAME', 'vectorgpu_matchrow' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION matchrow_from_text(text) RETURNS matchrow
	AS 'MODULE_PATHNAME', 'vectorgpu_matchrow_from_text' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE CAST (text AS matchrow) WITH FUNCTION matchrow_from_text(text);

CREATE FUNCTION matchrow_from_text(varchar) RETURNS matchrow
	AS 'MODULE_PATHNAME', 'vectorgpu_matchrow_from_text' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE CAST (varchar AS matchrow) WITH FUNCTION matchrow_from_text(varchar);

CREATE FUNCTION matchrow_from_text(bpchar) RETURNS matchrow
	AS 'MODULE_PATHNAME', 'vectorgpu_matchrow_from_text' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE CAST (bpchar AS matchrow) WITH FUNCTION matchrow_from_text(bpchar);

CREATE FUNCTION matchrow_from_text(name) RETURNS matchrow
	AS 'MODULE_PATHNAME', 'vectorgpu_matchrow_from_name' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE CAST (name AS matchrow) WITH FUNCTION matchrow_from_text(name);

CREATE FUNCTION matchquery(unknown) RETURNS matchquery
	AS 'MODULE_PATHNAME', 'vectorgpu_matchquery' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION matchquery_from_text(text) RETURNS matchquery
	AS 'MODULE_PATHNAME', 'vectorgpu_matchquery_from_text' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE CAST (text AS matchquery) WITH FUNCTION matchquery_from_text(text);

CREATE FUNCTION matchquery_from_text(varchar) RETURNS matchquery
	AS 'MODULE_PATHNAME', 'vectorgpu_matchquery_from_text' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE CAST (varchar AS matchquery) WITH FUNCTION matchquery_from_text(varchar);

CREATE FUNCTION matchquery_from_text(bpchar) RETURNS matchquery
	AS 'MODULE_PATHNAME', 'vectorgpu_matchquery_from_text' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE CAST (bpchar AS matchquery) WITH FUNCTION matchquery_from_text(bpchar);

CREATE FUNCTION matchquery_from_text(name) RETURNS matchquery
	AS 'MODULE_PATHNAME', 'vectorgpu_matchquery_from_name' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE CAST (name AS matchquery) WITH FUNCTION matchquery_from_text(name);

-- Comparison of matchrow and matchquery

CREATE FUNCTION matchrow_eq(matchrow, matchrow) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_match_eq' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION matchrow_ne(matchrow, matchrow) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_match_ne' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION matchrow_hash(matchrow) RETURNS integer
	AS 'MODULE_PATHNAME', 'vectorgpu_match_hash' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION matchrow_hash_extended(matchrow, bigint) RETURNS bigint
	AS 'MODULE_PATHNAME', 'vectorgpu_match_hash_extended' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION matchquery_eq(matchquery, matchquery) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_match_eq' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION matchquery_ne(matchquery, matchquery) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_match_ne' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION matchquery_hash(matchquery) RETURNS integer
	AS 'MODULE_PATHNAME', 'vectorgpu_match_hash' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION matchquery_hash_extended(matchquery, bigint) RETURNS bigint
	AS 'MODULE_PATHNAME', 'vectorgpu_match_hash_extended' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION matchrow_lt(matchrow, matchrow) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_matchrow_lt' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION matchrow_le(matchrow, matchrow) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_matchrow_le' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION matchrow_ge(matchrow, matchrow) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_matchrow_ge' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION matchrow_gt(matchrow, matchrow) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_matchrow_gt' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION matchrow_cmp(matchrow, matchrow) RETURNS integer
	AS 'MODULE_PATHNAME', 'vectorgpu_matchrow_cmp' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE OPERATOR = (
	LEFTARG = matchrow, RIGHTARG = matchrow, FUNCTION = matchrow_eq,
	COMMUTATOR = =, NEGATOR = <>,
	RESTRICT = eqsel, JOIN = eqjoinsel, HASHES, MERGES
);

CREATE OPERATOR <> (
	LEFTARG = matchrow, RIGHTARG = matchrow, FUNCTION = matchrow_ne,
	COMMUTATOR = <>, NEGATOR = =,
	RESTRICT = neqsel, JOIN = neqjoinsel
);

CREATE OPERATOR = (
	LEFTARG = matchquery, RIGHTARG = matchquery, FUNCTION = matchquery_eq,
	COMMUTATOR = =, NEGATOR = <>,
	RESTRICT = eqsel, JOIN = eqjoinsel, HASHES
);

CREATE OPERATOR <> (
	LEFTARG = matchquery, RIGHTARG = matchquery, FUNCTION = matchquery_ne,
	COMMUTATOR = <>, NEGATOR = =,
	RESTRICT = neqsel, JOIN = neqjoinsel
);

CREATE OPERATOR < (
	LEFTARG = matchrow, RIGHTARG = matchrow, FUNCTION = matchrow_lt,
	COMMUTATOR = >, NEGATOR = >=,
	RESTRICT = scalarltsel, JOIN = scalarltjoinsel
);

CREATE OPERATOR <= (
	LEFTARG = matchrow, RIGHTARG = matchrow, FUNCTION = matchrow_le,
	COMMUTATOR = >=, NEGATOR = >,
	RESTRICT = scalarlesel, JOIN = scalarlejoinsel
);

CREATE OPERATOR >= (
	LEFTARG = matchrow, RIGHTARG = matchrow, FUNCTION = matchrow_ge,
	COMMUTATOR = <=, NEGATOR = <,
	RESTRICT = scalargesel, JOIN = scalargejoinsel
);

CREATE OPERATOR > (
	LEFTARG = matchrow, RIGHTARG = matchrow, FUNCTION = matchrow_gt,
	COMMUTATOR = <, NEGATOR = <=,
	RESTRICT = scalargtsel, JOIN = scalargtjoinsel
);

CREATE OPERATOR CLASS matchrow_hash_ops
	DEFAULT FOR TYPE matchrow USING hash AS
	OPERATOR 1 =,
	FUNCTION 1 matchrow_hash(matchrow),
	FUNCTION 2 matchrow_hash_extended(matchrow, bigint);

CREATE OPERATOR CLASS matchquery_hash_ops
	DEFAULT FOR TYPE matchquery USING hash AS
	OPERATOR 1 =,
	FUNCTION 1 matchquery_hash(matchquery),
	FUNCTION 2 matchquery_hash_extended(matchquery, bigint);

CREATE OPERATOR CLASS matchrow_btree_ops
	DEFAULT FOR TYPE matchrow USING btree AS
	OPERATOR 1 <,
	OPERATOR 2 <=,
	OPERATOR 3 =,
	OPERATOR 4 >=,
	OPERATOR 5 >,
	FUNCTION 1 matchrow_cmp(matchrow, matchrow);

CREATE FUNCTION match_count(matchrow, matchquery) RETURNS integer
	AS 'MODULE_PATHNAME', 'vectorgpu_matchrow_match_count' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION match_distance(matchrow, matchquery) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_matchrow_match_distance' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION match_at_least(matchrow, matchquery, integer) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_matchrow_match_at_least' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE OPERATOR <#> (
	LEFTARG = matchrow, RIGHTARG = matchquery, FUNCTION = match_distance
);

-- Edit distance of strings, its lower bound, n-grams

CREATE FUNCTION edit_distance(text, text) RETURNS integer
	AS 'MODULE_PATHNAME', 'vectorgpu_edit_distance' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION edit_distance_float(text, text) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_edit_distance_float' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION gram_match_count(text, text, n integer DEFAULT 3) RETURNS integer
	AS 'MODULE_PATHNAME', 'vectorgpu_gram_match_count' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION edit_distance_bound(text, text, n integer DEFAULT 3) RETURNS integer
	AS 'MODULE_PATHNAME', 'vectorgpu_edit_distance_bound' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION ordered_grams(text, n integer DEFAULT 3) RETURNS TABLE (gram text, occurrence integer)
	AS 'MODULE_PATHNAME', 'vectorgpu_ordered_grams' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE ROWS 20;

CREATE OPERATOR <~> (
	LEFTARG = text, RIGHTARG = text, FUNCTION = edit_distance_float,
	COMMUTATOR = <~>
);

-- Jaccard distance of sets, signatures

CREATE FUNCTION array_jaccard_distance(integer[], integer[]) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_int4_array_jaccard' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION array_jaccard_distance(bigint[], bigint[]) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_int8_array_jaccard' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION array_jaccard_distance(text[], text[]) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_text_array_jaccard' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE FUNCTION array_jaccard_distance(uuid[], uuid[]) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_uuid_array_jaccard' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE OPERATOR <%> (
	LEFTARG = integer[], RIGHTARG = integer[], FUNCTION = array_jaccard_distance,
	COMMUTATOR = <%>
);

CREATE OPERATOR <%> (
	LEFTARG = bigint[], RIGHTARG = bigint[], FUNCTION = array_jaccard_distance,
	COMMUTATOR = <%>
);

CREATE OPERATOR <%> (
	LEFTARG = text[], RIGHTARG = text[], FUNCTION = array_jaccard_distance,
	COMMUTATOR = <%>
);

CREATE OPERATOR <%> (
	LEFTARG = uuid[], RIGHTARG = uuid[], FUNCTION = array_jaccard_distance,
	COMMUTATOR = <%>
);

CREATE FUNCTION minhash(integer[], hashes integer DEFAULT 64, seed bigint DEFAULT 0) RETURNS integer[]
	AS 'MODULE_PATHNAME', 'vectorgpu_int4_array_minhash' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;

CREATE FUNCTION minhash(bigint[], hashes integer DEFAULT 64, seed bigint DEFAULT 0) RETURNS integer[]
	AS 'MODULE_PATHNAME', 'vectorgpu_int8_array_minhash' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;

CREATE FUNCTION minhash(text[], hashes integer DEFAULT 64, seed bigint DEFAULT 0) RETURNS integer[]
	AS 'MODULE_PATHNAME', 'vectorgpu_text_array_minhash' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;

CREATE FUNCTION minhash(uuid[], hashes integer DEFAULT 64, seed bigint DEFAULT 0) RETURNS integer[]
	AS 'MODULE_PATHNAME', 'vectorgpu_uuid_array_minhash' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;

CREATE FUNCTION lsh_l2(vector, hashes integer DEFAULT 64, width float8 DEFAULT 4, buckets integer DEFAULT 67, seed bigint DEFAULT 0) RETURNS integer[]
	AS 'MODULE_PATHNAME', 'vectorgpu_lsh_l2' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;

CREATE FUNCTION lsh_l1(vector, hashes integer DEFAULT 64, width float8 DEFAULT 4, buckets integer DEFAULT 67, seed bigint DEFAULT 0) RETURNS integer[]
	AS 'MODULE_PATHNAME', 'vectorgpu_lsh_l1' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;

CREATE FUNCTION lsh_cosine(vector, hashes integer DEFAULT 64, seed bigint DEFAULT 0) RETURNS integer[]
	AS 'MODULE_PATHNAME', 'vectorgpu_lsh_cosine' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;

CREATE FUNCTION signature_matches(integer[], integer[]) RETURNS integer
	AS 'MODULE_PATHNAME', 'vectorgpu_signature_matches' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION lsh_hashes(epsilon float8, delta float8) RETURNS bigint
	AS 'MODULE_PATHNAME', 'vectorgpu_lsh_hashes' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- btree operator classes

CREATE OPERATOR CLASS vector_ops
	DEFAULT FOR TYPE vector USING btree AS
	OPERATOR 1 <,
	OPERATOR 2 <=,
	OPERATOR 3 =,
	OPERATOR 4 >=,
	OPERATOR 5 >,
	FUNCTION 1 vector_cmp(vector, vector);

CREATE OPERATOR CLASS halfvec_ops
	DEFAULT FOR TYPE halfvec USING btree AS
	OPERATOR 1 <,
	OPERATOR 2 <=,
	OPERATOR 3 =,
	OPERATOR 4 >=,
	OPERATOR 5 >,
	FUNCTION 1 halfvec_cmp(halfvec, halfvec);

-- Access methods

CREATE FUNCTION gpuflat_handler(internal) RETURNS index_am_handler
	AS 'MODULE_PATHNAME', 'vectorgpu_gpuflat_handler' LANGUAGE C;

CREATE ACCESS METHOD gpuflat TYPE INDEX HANDLER gpuflat_handler;

COMMENT ON ACCESS METHOD gpuflat IS 'exact similarity search';

-- Support function 1 of the operator classes: which elements, which metric

CREATE FUNCTION vector_l2_shape() RETURNS int4
	AS 'MODULE_PATHNAME', 'vectorgpu_shape_vector_l2' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION vector_ip_shape() RETURNS int4
	AS 'MODULE_PATHNAME', 'vectorgpu_shape_vector_ip' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION vector_cosine_shape() RETURNS int4
	AS 'MODULE_PATHNAME', 'vectorgpu_shape_vector_cosine' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION vector_l1_shape() RETURNS int4
	AS 'MODULE_PATHNAME', 'vectorgpu_shape_vector_l1' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION halfvec_l2_shape() RETURNS int4
	AS 'MODULE_PATHNAME', 'vectorgpu_shape_halfvec_l2' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION halfvec_ip_shape() RETURNS int4
	AS 'MODULE_PATHNAME', 'vectorgpu_shape_halfvec_ip' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION halfvec_cosine_shape() RETURNS int4
	AS 'MODULE_PATHNAME', 'vectorgpu_shape_halfvec_cosine' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION halfvec_l1_shape() RETURNS int4
	AS 'MODULE_PATHNAME', 'vectorgpu_shape_halfvec_l1' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION bit_hamming_shape() RETURNS int4
	AS 'MODULE_PATHNAME', 'vectorgpu_shape_bit_hamming' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION bit_jaccard_shape() RETURNS int4
	AS 'MODULE_PATHNAME', 'vectorgpu_shape_bit_jaccard' LANGUAGE C IMMUTABLE PARALLEL SAFE;

-- Operator classes of gpuflat

CREATE OPERATOR CLASS vector_l2_ops
	DEFAULT FOR TYPE vector USING gpuflat AS
	OPERATOR 1 <-> (vector, vector) FOR ORDER BY float_ops,
	FUNCTION 1 vector_l2_shape();

CREATE OPERATOR CLASS vector_ip_ops
	FOR TYPE vector USING gpuflat AS
	OPERATOR 1 <#> (vector, vector) FOR ORDER BY float_ops,
	FUNCTION 1 vector_ip_shape();

CREATE OPERATOR CLASS vector_cosine_ops
	FOR TYPE vector USING gpuflat AS
	OPERATOR 1 <=> (vector, vector) FOR ORDER BY float_ops,
	FUNCTION 1 vector_cosine_shape();

CREATE OPERATOR CLASS vector_l1_ops
	FOR TYPE vector USING gpuflat AS
	OPERATOR 1 <+> (vector, vector) FOR ORDER BY float_ops,
	FUNCTION 1 vector_l1_shape();

CREATE OPERATOR CLASS halfvec_l2_ops
	DEFAULT FOR TYPE halfvec USING gpuflat AS
	OPERATOR 1 <-> (halfvec, halfvec) FOR ORDER BY float_ops,
	FUNCTION 1 halfvec_l2_shape();

CREATE OPERATOR CLASS halfvec_ip_ops
	FOR TYPE halfvec USING gpuflat AS
	OPERATOR 1 <#> (halfvec, halfvec) FOR ORDER BY float_ops,
	FUNCTION 1 halfvec_ip_shape();

CREATE OPERATOR CLASS halfvec_cosine_ops
	FOR TYPE halfvec USING gpuflat AS
	OPERATOR 1 <=> (halfvec, halfvec) FOR ORDER BY float_ops,
	FUNCTION 1 halfvec_cosine_shape();

CREATE OPERATOR CLASS halfvec_l1_ops
	FOR TYPE halfvec USING gpuflat AS
	OPERATOR 1 <+> (halfvec, halfvec) FOR ORDER BY float_ops,
	FUNCTION 1 halfvec_l1_shape();

CREATE OPERATOR CLASS bit_hamming_ops
	DEFAULT FOR TYPE bit USING gpuflat AS
	OPERATOR 1 <~> (bit, bit) FOR ORDER BY float_ops,
	FUNCTION 1 bit_hamming_shape();

CREATE OPERATOR CLASS bit_jaccard_ops
	FOR TYPE bit USING gpuflat AS
	OPERATOR 1 <%> (bit, bit) FOR ORDER BY float_ops,
	FUNCTION 1 bit_jaccard_shape();

-- gpumatch

CREATE FUNCTION gpumatch_handler(internal) RETURNS index_am_handler
	AS 'MODULE_PATHNAME', 'vectorgpu_gpumatch_handler' LANGUAGE C;

CREATE ACCESS METHOD gpumatch TYPE INDEX HANDLER gpumatch_handler;

COMMENT ON ACCESS METHOD gpumatch IS 'search by match count, with an inverted index';

CREATE FUNCTION array_match_shape() RETURNS int4
	AS 'MODULE_PATHNAME', 'vectorgpu_shape_array_match' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION tsvector_match_shape() RETURNS int4
	AS 'MODULE_PATHNAME', 'vectorgpu_shape_tsvector_match' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION matchrow_match_shape() RETURNS int4
	AS 'MODULE_PATHNAME', 'vectorgpu_shape_matchrow_match' LANGUAGE C IMMUTABLE PARALLEL SAFE;

-- match_at_least(value, query, n) as an index condition: value @# match_condition(query, n)

CREATE FUNCTION match_at_least_support(internal) RETURNS internal
	AS 'MODULE_PATHNAME', 'vectorgpu_match_at_least_support' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION match_condition(integer[], integer) RETURNS bytea
	AS 'MODULE_PATHNAME', 'vectorgpu_int4_array_match_condition' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION match_satisfies(integer[], bytea) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_int4_array_match_satisfies' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE OPERATOR @# (
	LEFTARG = integer[], RIGHTARG = bytea, FUNCTION = match_satisfies,
	RESTRICT = contsel, JOIN = contjoinsel
);

ALTER FUNCTION match_at_least(integer[], integer[], integer) SUPPORT match_at_least_support;

CREATE FUNCTION match_condition(bigint[], integer) RETURNS bytea
	AS 'MODULE_PATHNAME', 'vectorgpu_int8_array_match_condition' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION match_satisfies(bigint[], bytea) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_int8_array_match_satisfies' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE OPERATOR @# (
	LEFTARG = bigint[], RIGHTARG = bytea, FUNCTION = match_satisfies,
	RESTRICT = contsel, JOIN = contjoinsel
);

ALTER FUNCTION match_at_least(bigint[], bigint[], integer) SUPPORT match_at_least_support;

CREATE FUNCTION match_condition(text[], integer) RETURNS bytea
	AS 'MODULE_PATHNAME', 'vectorgpu_text_array_match_condition' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION match_satisfies(text[], bytea) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_text_array_match_satisfies' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE OPERATOR @# (
	LEFTARG = text[], RIGHTARG = bytea, FUNCTION = match_satisfies,
	RESTRICT = contsel, JOIN = contjoinsel
);

ALTER FUNCTION match_at_least(text[], text[], integer) SUPPORT match_at_least_support;

CREATE FUNCTION match_condition(uuid[], integer) RETURNS bytea
	AS 'MODULE_PATHNAME', 'vectorgpu_uuid_array_match_condition' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION match_satisfies(uuid[], bytea) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_uuid_array_match_satisfies' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE OPERATOR @# (
	LEFTARG = uuid[], RIGHTARG = bytea, FUNCTION = match_satisfies,
	RESTRICT = contsel, JOIN = contjoinsel
);

ALTER FUNCTION match_at_least(uuid[], uuid[], integer) SUPPORT match_at_least_support;

CREATE FUNCTION match_condition(tsvector, integer) RETURNS bytea
	AS 'MODULE_PATHNAME', 'vectorgpu_tsvector_match_condition' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION match_satisfies(tsvector, bytea) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_tsvector_match_satisfies' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE OPERATOR @# (
	LEFTARG = tsvector, RIGHTARG = bytea, FUNCTION = match_satisfies,
	RESTRICT = contsel, JOIN = contjoinsel
);

ALTER FUNCTION match_at_least(tsvector, tsvector, integer) SUPPORT match_at_least_support;

CREATE FUNCTION match_condition(matchquery, integer) RETURNS bytea
	AS 'MODULE_PATHNAME', 'vectorgpu_matchrow_match_condition' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION match_satisfies(matchrow, bytea) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_matchrow_match_satisfies' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;

CREATE OPERATOR @# (
	LEFTARG = matchrow, RIGHTARG = bytea, FUNCTION = match_satisfies,
	RESTRICT = contsel, JOIN = contjoinsel
);

ALTER FUNCTION match_at_least(matchrow, matchquery, integer) SUPPORT match_at_least_support;

-- One operator class for all arrays; the index learns from its column what the elements are.
CREATE OPERATOR CLASS array_match_ops
	DEFAULT FOR TYPE anyarray USING gpumatch AS
	OPERATOR 1 <#> (integer[], integer[]) FOR ORDER BY float_ops,
	OPERATOR 2 @# (integer[], bytea),
	OPERATOR 1 <#> (bigint[], bigint[]) FOR ORDER BY float_ops,
	OPERATOR 2 @# (bigint[], bytea),
	OPERATOR 1 <#> (text[], text[]) FOR ORDER BY float_ops,
	OPERATOR 2 @# (text[], bytea),
	OPERATOR 1 <#> (uuid[], uuid[]) FOR ORDER BY float_ops,
	OPERATOR 2 @# (uuid[], bytea),
	FUNCTION 1 array_match_shape(),
	FUNCTION 3 (integer[], integer[]) match_condition(integer[], integer),
	FUNCTION 3 (bigint[], bigint[]) match_condition(bigint[], integer),
	FUNCTION 3 (text[], text[]) match_condition(text[], integer),
	FUNCTION 3 (uuid[], uuid[]) match_condition(uuid[], integer);

CREATE OPERATOR CLASS tsvector_match_ops
	DEFAULT FOR TYPE tsvector USING gpumatch AS
	OPERATOR 1 <#> (tsvector, tsvector) FOR ORDER BY float_ops,
	OPERATOR 2 @# (tsvector, bytea),
	FUNCTION 1 tsvector_match_shape(),
	FUNCTION 3 match_condition(tsvector, integer);

CREATE OPERATOR CLASS matchrow_match_ops
	DEFAULT FOR TYPE matchrow USING gpumatch AS
	OPERATOR 1 <#> (matchrow, matchquery) FOR ORDER BY float_ops,
	OPERATOR 2 @# (matchrow, bytea),
	FUNCTION 1 matchrow_match_shape(),
	FUNCTION 3 match_condition(matchquery, integer);

-- Edit distance by n-grams: counts bound the distance from below, the executor computes it.

CREATE FUNCTION text_gram_shape() RETURNS int4
	AS 'MODULE_PATHNAME', 'vectorgpu_shape_text_gram' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION text_gram_options(internal) RETURNS void
	AS 'MODULE_PATHNAME', 'vectorgpu_text_gram_options' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE OPERATOR CLASS text_gram_ops
	DEFAULT FOR TYPE text USING gpumatch AS
	OPERATOR 1 <~> (text, text) FOR ORDER BY float_ops,
	FUNCTION 1 text_gram_shape(),
	FUNCTION 2 text_gram_options(internal);

-- Signatures: counts find candidates, which are ordered by their exact distance.

CREATE FUNCTION array_minhash_shape() RETURNS int4
	AS 'MODULE_PATHNAME', 'vectorgpu_shape_array_minhash' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION vector_lsh_l2_shape() RETURNS int4
	AS 'MODULE_PATHNAME', 'vectorgpu_shape_vector_lsh_l2' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION vector_lsh_l1_shape() RETURNS int4
	AS 'MODULE_PATHNAME', 'vectorgpu_shape_vector_lsh_l1' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION vector_lsh_cosine_shape() RETURNS int4
	AS 'MODULE_PATHNAME', 'vectorgpu_shape_vector_lsh_cosine' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION minhash_options(internal) RETURNS void
	AS 'MODULE_PATHNAME', 'vectorgpu_minhash_options' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION lsh_options(internal) RETURNS void
	AS 'MODULE_PATHNAME', 'vectorgpu_lsh_options' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE OPERATOR CLASS array_minhash_ops
	FOR TYPE anyarray USING gpumatch AS
	OPERATOR 1 <%> (integer[], integer[]) FOR ORDER BY float_ops,
	OPERATOR 1 <%> (bigint[], bigint[]) FOR ORDER BY float_ops,
	OPERATOR 1 <%> (text[], text[]) FOR ORDER BY float_ops,
	OPERATOR 1 <%> (uuid[], uuid[]) FOR ORDER BY float_ops,
	FUNCTION 1 array_minhash_shape(),
	FUNCTION 2 minhash_options(internal);

CREATE OPERATOR CLASS vector_lsh_l2_ops
	FOR TYPE vector USING gpumatch AS
	OPERATOR 1 <-> (vector, vector) FOR ORDER BY float_ops,
	FUNCTION 1 vector_lsh_l2_shape(),
	FUNCTION 2 lsh_options(internal);

CREATE OPERATOR CLASS vector_lsh_l1_ops
	FOR TYPE vector USING gpumatch AS
	OPERATOR 1 <+> (vector, vector) FOR ORDER BY float_ops,
	FUNCTION 1 vector_lsh_l1_shape(),
	FUNCTION 2 lsh_options(internal);

CREATE OPERATOR CLASS vector_lsh_cosine_ops
	FOR TYPE vector USING gpumatch AS
	OPERATOR 1 <=> (vector, vector) FOR ORDER BY float_ops,
	FUNCTION 1 vector_lsh_cosine_shape(),
	FUNCTION 2 lsh_options(internal);

-- Access method gpuivf, and its operator classes

CREATE FUNCTION gpuivf_handler(internal) RETURNS index_am_handler
	AS 'MODULE_PATHNAME', 'vectorgpu_gpuivf_handler' LANGUAGE C;

CREATE ACCESS METHOD gpuivf TYPE INDEX HANDLER gpuivf_handler;

COMMENT ON ACCESS METHOD gpuivf IS 'approximate similarity search by inverted lists';

CREATE OPERATOR CLASS vector_l2_ops
	DEFAULT FOR TYPE vector USING gpuivf AS
	OPERATOR 1 <-> (vector, vector) FOR ORDER BY float_ops,
	FUNCTION 1 vector_l2_shape();

CREATE OPERATOR CLASS vector_ip_ops
	FOR TYPE vector USING gpuivf AS
	OPERATOR 1 <#> (vector, vector) FOR ORDER BY float_ops,
	FUNCTION 1 vector_ip_shape();

CREATE OPERATOR CLASS vector_cosine_ops
	FOR TYPE vector USING gpuivf AS
	OPERATOR 1 <=> (vector, vector) FOR ORDER BY float_ops,
	FUNCTION 1 vector_cosine_shape();

CREATE OPERATOR CLASS vector_l1_ops
	FOR TYPE vector USING gpuivf AS
	OPERATOR 1 <+> (vector, vector) FOR ORDER BY float_ops,
	FUNCTION 1 vector_l1_shape();

CREATE OPERATOR CLASS halfvec_l2_ops
	DEFAULT FOR TYPE halfvec USING gpuivf AS
	OPERATOR 1 <-> (halfvec, halfvec) FOR ORDER BY float_ops,
	FUNCTION 1 halfvec_l2_shape();

CREATE OPERATOR CLASS halfvec_ip_ops
	FOR TYPE halfvec USING gpuivf AS
	OPERATOR 1 <#> (halfvec, halfvec) FOR ORDER BY float_ops,
	FUNCTION 1 halfvec_ip_shape();

CREATE OPERATOR CLASS halfvec_cosine_ops
	FOR TYPE halfvec USING gpuivf AS
	OPERATOR 1 <=> (halfvec, halfvec) FOR ORDER BY float_ops,
	FUNCTION 1 halfvec_cosine_shape();

CREATE OPERATOR CLASS halfvec_l1_ops
	FOR TYPE halfvec USING gpuivf AS
	OPERATOR 1 <+> (halfvec, halfvec) FOR ORDER BY float_ops,
	FUNCTION 1 halfvec_l1_shape();

-- Access method gpugraph, and its operator classes

CREATE FUNCTION gpugraph_handler(internal) RETURNS index_am_handler
	AS 'MODULE_PATHNAME', 'vectorgpu_gpugraph_handler' LANGUAGE C;

CREATE ACCESS METHOD gpugraph TYPE INDEX HANDLER gpugraph_handler;

COMMENT ON ACCESS METHOD gpugraph IS 'approximate similarity search by a proximity graph';

CREATE OPERATOR CLASS vector_l2_ops
	DEFAULT FOR TYPE vector USING gpugraph AS
	OPERATOR 1 <-> (vector, vector) FOR ORDER BY float_ops,
	FUNCTION 1 vector_l2_shape();

CREATE OPERATOR CLASS vector_ip_ops
	FOR TYPE vector USING gpugraph AS
	OPERATOR 1 <#> (vector, vector) FOR ORDER BY float_ops,
	FUNCTION 1 vector_ip_shape();

CREATE OPERATOR CLASS vector_cosine_ops
	FOR TYPE vector USING gpugraph AS
	OPERATOR 1 <=> (vector, vector) FOR ORDER BY float_ops,
	FUNCTION 1 vector_cosine_shape();

CREATE OPERATOR CLASS vector_l1_ops
	FOR TYPE vector USING gpugraph AS
	OPERATOR 1 <+> (vector, vector) FOR ORDER BY float_ops,
	FUNCTION 1 vector_l1_shape();

CREATE OPERATOR CLASS halfvec_l2_ops
	DEFAULT FOR TYPE halfvec USING gpugraph AS
	OPERATOR 1 <-> (halfvec, halfvec) FOR ORDER BY float_ops,
	FUNCTION 1 halfvec_l2_shape();

CREATE OPERATOR CLASS halfvec_ip_ops
	FOR TYPE halfvec USING gpugraph AS
	OPERATOR 1 <#> (halfvec, halfvec) FOR ORDER BY float_ops,
	FUNCTION 1 halfvec_ip_shape();

CREATE OPERATOR CLASS halfvec_cosine_ops
	FOR TYPE halfvec USING gpugraph AS
	OPERATOR 1 <=> (halfvec, halfvec) FOR ORDER BY float_ops,
	FUNCTION 1 halfvec_cosine_shape();

CREATE OPERATOR CLASS halfvec_l1_ops
	FOR TYPE halfvec USING gpugraph AS
	OPERATOR 1 <+> (halfvec, halfvec) FOR ORDER BY float_ops,
	FUNCTION 1 halfvec_l1_shape();

-- Maintenance functions

CREATE FUNCTION vectorgpu_merge(
	index regclass,
	OUT segments_before int4,
	OUT segments_after int4,
	OUT rows_moved int8,
	OUT rows_dropped int8,
	OUT bytes_written int8,
	OUT wal_bytes int8)
	AS 'MODULE_PATHNAME', 'vectorgpu_merge' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION vectorgpu_merge(regclass) IS 'merges an index into one segment; for the owner of the table';

CREATE FUNCTION vectorgpu_check(
	index regclass,
	heapallindexed boolean DEFAULT false,
	check_cache boolean DEFAULT false,
	OUT pages_checked int8,
	OUT segments int4,
	OUT rows int8,
	OUT null_rows int8,
	OUT dead_rows int8,
	OUT delta_rows int8,
	OUT heap_rows_checked int8,
	OUT free_blocks int8,
	OUT leaked_blocks int8,
	OUT cache_rows_checked int8)
	AS 'MODULE_PATHNAME', 'vectorgpu_check' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION vectorgpu_check(regclass, boolean, boolean) IS
	'verifies every page of an index and, if asked to, that it has every row of the table, and that the worker''s copy equals it';

REVOKE ALL ON FUNCTION vectorgpu_check(regclass, boolean, boolean) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION vectorgpu_check(regclass, boolean, boolean) TO pg_stat_scan_tables;

-- Reads with the caller's privileges, row-level security included: safe for everybody.
CREATE FUNCTION vectorgpu_kmeans(
	relation regclass,
	column_name name,
	k int4,
	spherical boolean DEFAULT false,
	max_iterations int4 DEFAULT 20,
	balance float4 DEFAULT 0,
	seed int8 DEFAULT 1,
	OUT cluster int4,
	OUT centroid vector,
	OUT size int8,
	OUT inertia float8)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'vectorgpu_kmeans' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE ROWS 100;

COMMENT ON FUNCTION vectorgpu_kmeans(regclass, name, int4, boolean, int4, float4, int8) IS
	'k-means over a column: centroids, the rows nearest to each, and the sum of their squared distances';

-- Shows indexes on tables that the caller may read, and no others: safe for everybody.
CREATE FUNCTION vectorgpu_index_stats(
	OUT index_oid oid,
	OUT element text,
	OUT metric text,
	OUT dimensions int4,
	OUT rows int8,
	OUT segment_rows int8,
	OUT null_rows int8,
	OUT delta_rows int8,
	OUT dead_rows int8,
	OUT segments int4,
	OUT delta_bytes int8,
	OUT index_bytes int8,
	OUT manifest_generation int8,
	OUT tombstone_generation int8,
	OUT free_blocks int8,
	OUT leaked_blocks int8,
	OUT format_version int4,
	OUT is_valid boolean,
	OUT needs_reindex boolean,
	OUT lists int4,
	OUT list_imbalance float8,
	OUT list_drift float8)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'vectorgpu_index_stats' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

-- Sizes and counts of this database's copies by file number, no contents.
CREATE FUNCTION vectorgpu_worker_copies(
	OUT tablespace oid,
	OUT filenode oid,
	OUT uuid text,
	OUT resident_bytes int8,
	OUT rows int8,
	OUT delta_rows int8,
	OUT dead_rows int8,
	OUT manifest_generation int8,
	OUT delta_end int8,
	OUT tombstone_generation int8,
	OUT loads int8,
	OUT searches int8,
	OUT idle interval,
	OUT loading boolean)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'vectorgpu_worker_copies' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE VIEW vectorgpu_indexes AS
	SELECT n.nspname AS schema_name, t.relname AS table_name, c.relname AS index_name, a.amname AS access_method,
		s.element, s.metric, s.dimensions, s.rows, s.segment_rows, s.null_rows, s.delta_rows, s.dead_rows, s.segments,
		s.delta_bytes, s.index_bytes, s.manifest_generation, s.tombstone_generation, s.free_blocks, s.leaked_blocks,
		s.format_version, s.is_valid, s.needs_reindex, s.lists, s.list_imbalance, s.list_drift,
		w.resident_bytes, w.manifest_generation AS copy_manifest_generation, w.delta_end AS copy_delta_end,
		w.tombstone_generation AS copy_tombstone_generation, w.loads, w.searches
	FROM vectorgpu_index_stats() s
		JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) s.index_oid
		JOIN pg_catalog.pg_index i ON i.indexrelid OPERATOR(pg_catalog.=) c.oid
		JOIN pg_catalog.pg_class t ON t.oid OPERATOR(pg_catalog.=) i.indrelid
		JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
		JOIN pg_catalog.pg_am a ON a.oid OPERATOR(pg_catalog.=) c.relam
		JOIN pg_catalog.pg_database d ON d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
		LEFT JOIN LATERAL (
			SELECT * FROM vectorgpu_worker_copies() k
			WHERE k.filenode OPERATOR(pg_catalog.=) pg_catalog.pg_relation_filenode(c.oid)
				AND k.tablespace OPERATOR(pg_catalog.=)
					CASE WHEN c.reltablespace OPERATOR(pg_catalog.=) 0::pg_catalog.oid THEN d.dattablespace ELSE c.reltablespace END
			ORDER BY k.idle LIMIT 1) w ON true;

COMMENT ON VIEW vectorgpu_indexes IS
	'indexes of this database on tables that the caller may read; NULL where an index cannot be read now, or has no copy';
COMMENT ON COLUMN vectorgpu_indexes.schema_name IS 'schema of table and index';
COMMENT ON COLUMN vectorgpu_indexes.table_name IS 'table';
COMMENT ON COLUMN vectorgpu_indexes.index_name IS 'index';
COMMENT ON COLUMN vectorgpu_indexes.access_method IS 'access method';
COMMENT ON COLUMN vectorgpu_indexes.element IS 'type of the elements';
COMMENT ON COLUMN vectorgpu_indexes.metric IS 'distance that the index orders by';
COMMENT ON COLUMN vectorgpu_indexes.dimensions IS 'elements of a vector';
COMMENT ON COLUMN vectorgpu_indexes.rows IS
	'rows that searches see: segment_rows + delta_rows - dead_rows; those that no vacuum has marked yet are among them';
COMMENT ON COLUMN vectorgpu_indexes.segment_rows IS 'rows in segments, with NULL ones and dead ones';
COMMENT ON COLUMN vectorgpu_indexes.null_rows IS 'rows in segments whose value is NULL, with dead ones';
COMMENT ON COLUMN vectorgpu_indexes.delta_rows IS 'rows inserted since the last merge, with NULL ones and dead ones';
COMMENT ON COLUMN vectorgpu_indexes.dead_rows IS 'rows in segments and delta that vacuum has marked, until a merge drops them';
COMMENT ON COLUMN vectorgpu_indexes.segments IS 'number of segments';
COMMENT ON COLUMN vectorgpu_indexes.delta_bytes IS 'bytes of the delta''s rows';
COMMENT ON COLUMN vectorgpu_indexes.index_bytes IS 'bytes of the index''s file';
COMMENT ON COLUMN vectorgpu_indexes.manifest_generation IS 'merges that have changed the list of segments';
COMMENT ON COLUMN vectorgpu_indexes.tombstone_generation IS 'vacuums that have marked rows';
COMMENT ON COLUMN vectorgpu_indexes.free_blocks IS 'blocks that merges have freed and inserts or merges will use again';
COMMENT ON COLUMN vectorgpu_indexes.leaked_blocks IS 'blocks that only REINDEX gives back';
COMMENT ON COLUMN vectorgpu_indexes.format_version IS 'version of the index''s format';
COMMENT ON COLUMN vectorgpu_indexes.is_valid IS 'false while or after a concurrent build that has not succeeded';
COMMENT ON COLUMN vectorgpu_indexes.needs_reindex IS 'true if the index is not valid, damaged, or of another release';
COMMENT ON COLUMN vectorgpu_indexes.lists IS 'inverted lists of the largest segment; NULL: the access method has none, or no segment has rows';
COMMENT ON COLUMN vectorgpu_indexes.list_imbalance IS
	'rows that the list of an average row has, in the largest segment, as a multiple of the mean list: 1 if all are of one size';
COMMENT ON COLUMN vectorgpu_indexes.list_drift IS
	'mean squared distance of rows to their centroids as a multiple of that when these were trained, of the segment where it is greatest; a merge that finds more than 1.2 trains anew';
COMMENT ON COLUMN vectorgpu_indexes.resident_bytes IS 'bytes of the worker''s copy; NULL: it has none';
COMMENT ON COLUMN vectorgpu_indexes.copy_manifest_generation IS 'manifest_generation that the copy has';
COMMENT ON COLUMN vectorgpu_indexes.copy_delta_end IS 'rows ever inserted that the copy has';
COMMENT ON COLUMN vectorgpu_indexes.copy_tombstone_generation IS 'tombstone_generation that the copy has';
COMMENT ON COLUMN vectorgpu_indexes.loads IS 'times that the copy was loaded';
COMMENT ON COLUMN vectorgpu_indexes.searches IS 'searches that the copy has answered';

GRANT SELECT ON vectorgpu_indexes TO PUBLIC;

-- Worker

-- Says nothing of any index's contents: safe for everybody.
CREATE FUNCTION vectorgpu_worker_stats(
	OUT pid int4,
	OUT supervisor_pid int4,
	OUT ready boolean,
	OUT engine text,
	OUT device text,
	OUT uptime interval,
	OUT restarts int8,
	OUT sessions int8,
	OUT queued int8,
	OUT searches int8,
	OUT batches int8,
	OUT mean_batch_size float8,
	OUT latency_p50_us float8,
	OUT latency_p99_us float8,
	OUT copies int8,
	OUT resident_bytes int8,
	OUT memory_bytes int8,
	OUT evictions int8,
	OUT answered int8,
	OUT shipped_rows int8,
	OUT inline_loads int8,
	OUT background_loads int8,
	OUT background_updates int8,
	OUT fallbacks int8,
	OUT fallback_reasons text)
	AS 'MODULE_PATHNAME', 'vectorgpu_worker_stats' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE VIEW vectorgpu_worker AS
	SELECT pid, supervisor_pid, ready, engine, device, uptime, restarts, sessions, queued, searches, batches,
		mean_batch_size, latency_p50_us, latency_p99_us, copies, resident_bytes, memory_bytes, evictions, answered,
		shipped_rows, inline_loads, background_loads, background_updates, fallbacks,
		fallback_reasons::pg_catalog.jsonb AS fallback_reasons
	FROM vectorgpu_worker_stats();

COMMENT ON VIEW vectorgpu_worker IS
	'the worker process of this server; one row; what the worker itself counts is NULL while there is none';
COMMENT ON COLUMN vectorgpu_worker.pid IS 'process id of the worker; NULL: it does not run';
COMMENT ON COLUMN vectorgpu_worker.supervisor_pid IS 'process id of the background worker that starts and watches it';
COMMENT ON COLUMN vectorgpu_worker.ready IS 'true if scans ask it';
COMMENT ON COLUMN vectorgpu_worker.engine IS 'cpu or cuda';
COMMENT ON COLUMN vectorgpu_worker.device IS 'name of the device';
COMMENT ON COLUMN vectorgpu_worker.uptime IS 'time since it started';
COMMENT ON COLUMN vectorgpu_worker.restarts IS 'worker processes started since the server started, but the first';
COMMENT ON COLUMN vectorgpu_worker.sessions IS 'server processes that it serves now';
COMMENT ON COLUMN vectorgpu_worker.queued IS 'requests that wait now';
COMMENT ON COLUMN vectorgpu_worker.searches IS 'searches since it started';
COMMENT ON COLUMN vectorgpu_worker.batches IS 'groups of searches that the engine answered together, since it started';
COMMENT ON COLUMN vectorgpu_worker.mean_batch_size IS 'searches for each of those groups';
COMMENT ON COLUMN vectorgpu_worker.latency_p50_us IS 'median time from request to reply in microseconds, upper end of a histogram bucket';
COMMENT ON COLUMN vectorgpu_worker.latency_p99_us IS '99th percentile of the same';
COMMENT ON COLUMN vectorgpu_worker.copies IS 'copies of indexes that it holds now, of all databases';
COMMENT ON COLUMN vectorgpu_worker.resident_bytes IS 'bytes of those copies';
COMMENT ON COLUMN vectorgpu_worker.memory_bytes IS 'bytes that they may have: vectorgpu.worker_memory';
COMMENT ON COLUMN vectorgpu_worker.evictions IS 'copies dropped to make room, since it started';
COMMENT ON COLUMN vectorgpu_worker.answered IS 'batches of rows that scans got from the worker, since the server started';
COMMENT ON COLUMN vectorgpu_worker.shipped_rows IS 'delta rows that scans brought to it, since the server started';
COMMENT ON COLUMN vectorgpu_worker.inline_loads IS 'copies that scans brought to it, since the server started';
COMMENT ON COLUMN vectorgpu_worker.background_loads IS 'copies that loaders in the background brought to it, since the server started';
COMMENT ON COLUMN vectorgpu_worker.background_updates IS 'copies that loaders brought up to date, since the server started';
COMMENT ON COLUMN vectorgpu_worker.fallbacks IS 'batches of rows that came from the pages although the worker was wanted, since the server started';
COMMENT ON COLUMN vectorgpu_worker.fallback_reasons IS 'the same by reason: {"reason": batches}';

GRANT SELECT ON vectorgpu_worker TO PUBLIC;

CREATE FUNCTION vectorgpu_prewarm(index regclass) RETURNS int8
	AS 'MODULE_PATHNAME', 'vectorgpu_prewarm' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION vectorgpu_prewarm(regclass) IS
	'copies an index to the worker, or brings its copy up to date; returns the bytes of its vectors';

CREATE FUNCTION vectorgpu_evict(index regclass) RETURNS boolean
	AS 'MODULE_PATHNAME', 'vectorgpu_evict' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION vectorgpu_evict(regclass) IS 'drops the worker''s copy of an index; true if there was one';

REVOKE ALL ON FUNCTION vectorgpu_prewarm(regclass) FROM PUBLIC;
REVOKE ALL ON FUNCTION vectorgpu_evict(regclass) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION vectorgpu_prewarm(regclass) TO pg_stat_scan_tables;
GRANT EXECUTE ON FUNCTION vectorgpu_evict(regclass) TO pg_stat_scan_tables;
