# `vproc.guest`: our own programs in sub-domains of a virtual processor, at fixed addresses and with their own system
# calls. `--must` names events that must have happened; on the host nothing counts them.
echo "=== memory on demand"
guest --must=faults,calls,signals ./paging a b
echo "code $?"
echo "=== copies when written"
guest --must=copies,forks,signals ./fork
echo "code $?"
echo "=== preemption"
guest --must=kicks,switches,signals ./preempt
echo "code $?"
echo "=== signals"
guest --must=signals,forks ./signals
echo "code $?"
echo "=== three programs at once"
guest --must=switches,forks,copies,signals ./three
echo "code $?"
exit 0
