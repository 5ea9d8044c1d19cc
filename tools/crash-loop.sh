#!/bin/sh
# Kills a manager with -9 at random moments and starts it again at once, on a simulator of its own.
#
#   tools/crash-loop.sh [heddle|ibsim] [ROUNDS] [NETLIST]
#
# Every third manager runs until the subnet is up and the time that it took is printed, in ms. The
# script fails if a manager ends by itself, or one is not up within 5 s. HEDDLE is the program.
set -u
kind=${1:-heddle} rounds=${2:-30} heddle=${HEDDLE:-bin/heddle} sock=crash$$
dir=$(mktemp -d) bad=0 pid=
net=${3:-$dir/net}
[ -n "${3:-}" ] || "$heddle" topo gen irregular 20 ports=6 hosts=2 links=40 > "$net"
if [ "$kind" = ibsim ]; then
	mkfifo "$dir/console"
	sleep 1d > "$dir/console" &
	keeper=$!
	IBSIM_SOCKNAME=$sock ibsim -s -N 512 -S 512 -P 4096 "$net" < "$dir/console" > "$dir/sim.log" 2>&1 &
else
	keeper=
	"$heddle" sim --netlist "$net" --socket "$sock" --no-console > "$dir/sim.log" 2>&1 &
fi
sim=$!
trap 'kill -9 $pid 2>/dev/null; kill $sim $keeper 2>/dev/null; rm -rf "$dir"' EXIT
sleep 1
n=0
while [ "$n" -lt "$rounds" ]; do
	n=$((n + 1))
	log=$dir/sm$n.log
	began=$(date +%s%N)
	"$heddle" sm --port "ibsim:host-1@$sock" --state "$dir/state" --api "" > "$log" 2>&1 &
	pid=$!
	if [ $((n % 3)) -eq 0 ]; then
		i=0
		until grep -q 'SUBNET UP' "$log" || [ "$i" -eq 100 ]; do
			sleep 0.05
			i=$((i + 1))
		done
		if grep -q 'SUBNET UP' "$log"; then
			echo "$n: up after $((($(date +%s%N) - began) / 1000000)) ms"
		else
			echo "$n: not up after 5 s"
			tail -5 "$log"
			bad=1
		fi
	else
		sleep "0.$(od -An -N2 -tu2 /dev/urandom | awk '{ printf "%03d", $1 % 600 }')"
	fi
	if ! kill -0 "$pid" 2>/dev/null; then
		echo "$n: ended by itself: $(tail -3 "$log")"
		bad=1
	fi
	kill -9 "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
done
exit $bad
