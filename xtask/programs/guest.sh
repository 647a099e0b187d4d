# Our own programs in sub-domains of a virtual processor, at fixed addresses and with calls of their own: `vproc.guest`. What must
# have happened is named; on the host nobody counts.
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
