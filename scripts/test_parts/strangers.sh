# shellcheck shell=bash
# The part of scripts/test about other users of the machine. Sourced by scripts/test; uses its variables and count, skip, show, sql.

# strangers CLUSTER: other users connect to the socket of that cluster's worker. The folder keeps out a user without rights; the worker refuses
# root, which no folder keeps out; the server's own user is greeted. If root has replaced the worker's socket, a scan sends it nothing and
# reads the pages. Only root can act as another user.
strangers() {
	local folder=$1/data/pgsql_tmp_vectorgpu lib=$WORK/tree/test/t/lib log=$LOGS/strangers.log version results waited

	if ! is_root; then
		skip strangers "only root can be another user"
		return
	fi
	version=$(sed -n 's/.*kProtocolVersion = \([0-9]*\);.*/\1/p' "$ROOT/src/wire/messages.hpp")
	FLAP_DATABASE=regression sql 'CREATE TABLE strangers AS SELECT i AS id, array_fill(i::real, ARRAY[3])::vector(3) AS v FROM generate_series(1, 100) i' \
		'CREATE INDEX ON strangers USING gpuflat (v vector_l2_ops)' >"$log" 2>&1
	for ((waited = 0; waited < 120; waited++)); do
		[ "$(FLAP_DATABASE=regression sql 'SELECT ready FROM vectorgpu_worker' 2>>"$log")" != t ] || break
		sleep 0.5
	done
	results="$(setpriv --reuid=nobody --regid=nogroup --clear-groups -- env PATH="/usr/bin:/bin:$PATH" python3 "$lib/knock.py" "$folder" "$version" 2>>"$log")"
	results+=" $(python3 "$lib/knock.py" "$folder" "$version" 2>>"$log")"
	results+=" $(run_as env PATH="/usr/bin:/bin:$PATH" python3 "$lib/knock.py" "$folder" "$version" 2>>"$log")"
	python3 "$lib/impostor.py" "$folder" >"$WORK/impostor" 2>>"$log" &
	for ((waited = 0; waited < 300; waited++)); do
		! grep -q ready "$WORK/impostor" || break
		sleep 0.1
	done
	results+=" $(PGOPTIONS='-c vectorgpu.worker=on -c vectorgpu.worker_min_size=0 -c enable_seqscan=off' FLAP_DATABASE=regression \
		sql "SELECT id FROM strangers ORDER BY v <-> '[7,7,7]' LIMIT 1" 2>>"$log")"
	wait $!
	results+=" $(tail -n 1 "$WORK/impostor")"
	if [ "$results" = 'denied refused greeted 7 silent' ]; then
		count strangers 5 0 0
	else
		echo "another user, root, the server's user, a scan, what it told root: $results" >>"$log"
		show "$log"
		count strangers 0 1 0
	fi
}
