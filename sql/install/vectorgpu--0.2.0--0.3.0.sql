-- vectorgpu 0.3.0: additions of ALTER EXTENSION vectorgpu UPDATE to 0.2.0; CREATE EXTENSION runs the scripts before and this one
\echo Use "ALTER EXTENSION vectorgpu UPDATE TO '0.3.0'" to load this file. \quit
