# shellcheck shell=bash
# The part of scripts/test about other users of the machine. Sourced by scripts/test; uses its variables and count, skip, show, sql.

# strangers CLUSTER: other users on the socket of that cluster's worker: one without rights is kept out by its folder, one whom no folder keeps out, root, by the
# worker; the server's own user is greeted. Only root can be another user.
strangers() {
	local folder=$1/data/pgsql_tmp_vectorgpu log=$LOGS/strangers.log knock version results waited

	if ! is_root; then
		skip strangers "only root can be another user"
		return
	fi
	knock=$WORK/tree/test/t/lib/knock.py
	version=$(sed -n 's/.*kProtocolVersion = \([0-9]*\);.*/\1/p' "$ROOT/src/wire/messages.hpp")
	for ((waited = 0; waited < 120; waited++)); do
		[ "$(FLAP_DATABASE=regression sql 'SELECT ready FROM vectorgpu_worker' 2>>"$log")" != t ] || break
		sleep 0.5
	done
	results="$(setpriv --reuid=nobody --regid=nogroup --clear-groups -- python3 "$knock" "$folder" "$version" 2>>"$log")"
	results+=" $(python3 "$knock" "$folder" "$version" 2>>"$log")"
	results+=" $(run_as python3 "$knock" "$folder" "$version" 2>>"$log")"
	if [ "$results" = 'denied refused greeted' ]; then
		count strangers 3 0 0
	else
		echo "another user, root, the server's user: $results" >>"$log"
		show "$log"
		count strangers 0 1 0
	fi
}
