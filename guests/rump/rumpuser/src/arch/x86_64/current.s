	.section .tbss, "awT", @nobits
	.hidden rumpuser_current
	.globl rumpuser_current
	.type rumpuser_current, @object
	.p2align 3
rumpuser_current:
	.zero 8
	.size rumpuser_current, 8
	.text

	# The library makes system calls, and a linker that reads this section links what has them.
	.section .deplibs, "MS", @llvm_dependent_libraries, 1
	.asciz "zircon"
	.text
