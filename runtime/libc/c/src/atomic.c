// stdatomic.h is the compiler's, and defines operations on fences and flags as macros. These are the functions that it
// declares, which the standard requires in addition to the macros.

void atomic_thread_fence(int order)
{
	__atomic_thread_fence(order);
}

void atomic_signal_fence(int order)
{
	__atomic_signal_fence(order);
}

_Bool atomic_flag_test_and_set_explicit(volatile void *flag, int order)
{
	return __atomic_test_and_set(flag, order);
}

_Bool atomic_flag_test_and_set(volatile void *flag)
{
	return __atomic_test_and_set(flag, __ATOMIC_SEQ_CST);
}

void atomic_flag_clear_explicit(volatile void *flag, int order)
{
	__atomic_clear(flag, order);
}

void atomic_flag_clear(volatile void *flag)
{
	__atomic_clear(flag, __ATOMIC_SEQ_CST);
}
