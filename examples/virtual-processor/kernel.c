// A kernel of one page that is an ordinary program: it owns a virtual processor and runs a program of a few instructions on it,
// in an address space of its own. It serves the program's system calls and page faults, skips its exceptions, and takes the
// processor away from it (docs/virtual-processors.md).
//
//   ../../hafnon cc kernel.c -lzircon -o kernel && ../../hafnon run ./kernel

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <zircon/process.h>
#include <zircon/status.h>
#include <zircon/syscalls.h>

#define PAGE 4096
// Where the program's code is, and where it expects memory.
#define CODE 0x1000000
#define DATA 0x2000000
// Interrupts enabled, as for every program.
#define FLAGS 0x202

// The program. It calls its kernel with a number in rax, and an argument in rdi.
enum { CALL_WRITE = 1, CALL_DONE = 2 };
static const uint8_t program[] = {
	0xb8, 1, 0, 0, 0, 0xbf, 'h', 0, 0, 0, 0x0f, 0x05, // mov eax, CALL_WRITE; mov edi, 'h'; syscall
	0xb8, 1, 0, 0, 0, 0xbf, 'i', 0, 0, 0, 0x0f, 0x05, // the same with 'i'
	0x48, 0x89, 0x3e, 0x48, 0x8b, 0x3e, // mov [rsi], rdi; mov rdi, [rsi]
	0x0f, 0x0b, // ud2
	0xb8, 2, 0, 0, 0, 0x0f, 0x05, // mov eax, CALL_DONE; syscall
	0xeb, 0xfe, // for ever: jmp for ever
};
#define UD2_BYTES 2

static zx_handle_t vproc, process, vmar;
static hafnon_vproc_page_t* page;

static void check(zx_status_t status, const char* what)
{
	if (status == ZX_OK) return;
	printf("%s: %s\n", what, zx_status_get_string(status));
	exit(1);
}

// Maps a page of a VMO into the program's address space.
static void map(zx_handle_t vmo, uint64_t address, uint32_t options)
{
	hafnon_vproc_run_t run = { .address = address, .len = PAGE, .options = options };
	check(zx_vproc_map(vmar, vmo, &run, 1), "zx_vproc_map");
}

// Makes the address space, with the program in it.
static void load(void)
{
	zx_handle_t code;
	check(zx_process_create(zx_job_default(), "program", 7, 0, &process, &vmar), "zx_process_create");
	check(zx_vmo_create(PAGE, 0, &code), "zx_vmo_create");
	check(zx_vmo_write(code, program, 0, sizeof program), "zx_vmo_write");
	check(zx_vmo_replace_as_executable(code, ZX_HANDLE_INVALID, &code), "zx_vmo_replace_as_executable");
	map(code, CODE, ZX_VM_PERM_READ | ZX_VM_PERM_EXECUTE);
	zx_handle_close(code);
}

// Makes the virtual processor, and maps the page that it shares with this thread.
static void create(void)
{
	zx_handle_t vmo;
	zx_vaddr_t address;
	check(zx_vproc_create(0, &vproc, &vmo), "zx_vproc_create");
	check(zx_vmar_map(zx_vmar_root_self(), ZX_VM_PERM_READ | ZX_VM_PERM_WRITE, 0, vmo, 0, PAGE, &address), "zx_vmar_map");
	zx_handle_close(vmo);
	page = (hafnon_vproc_page_t*)address;
}

// Runs the program until it is done.
static void run(void)
{
	page->state = (hafnon_vproc_state_t){ .ip = CODE, .rsi = DATA, .flags = FLAGS };
	check(zx_vproc_enter(vproc, process, page), "zx_vproc_enter");
	for (;;) {
		switch (page->reason) {
		case HAFNON_VPROC_REASON_SYSCALL:
			if (page->state.rax == CALL_DONE) {
				printf("done, with %c\n", (int)page->state.rdi);
				return;
			}
			printf("call %d: %c\n", (int)page->state.rax, (int)page->state.rdi);
			page->state.rax = 0;
			break;
		case HAFNON_VPROC_REASON_PAGE_FAULT: {
			zx_handle_t memory;
			printf("page fault at %#llx, a %s\n", (unsigned long long)page->address,
				page->code & HAFNON_VPROC_FAULT_WRITE ? "store" : "load");
			check(zx_vmo_create(PAGE, 0, &memory), "zx_vmo_create");
			map(memory, page->address & -PAGE, ZX_VM_PERM_READ | ZX_VM_PERM_WRITE);
			zx_handle_close(memory);
			break;
		}
		case HAFNON_VPROC_REASON_EXCEPTION:
			printf("exception %d\n", (int)page->vector);
			page->state.ip += UD2_BYTES;
			break;
		default:
			printf("stopped by %d\n", (int)page->reason);
			exit(1);
		}
		check(zx_vproc_resume(vproc, page), "zx_vproc_resume");
	}
}

// Another thread's part: it takes the processor away from the program, which computes for ever now.
static int kick(void* unused)
{
	(void)unused;
	zx_nanosleep(zx_deadline_after(ZX_MSEC(10)));
	return zx_vproc_kick(vproc);
}

static void preempt(void)
{
	thrd_t thread;
	int kicked;
	if (thrd_create(&thread, kick, NULL) != thrd_success) exit(1);
	check(zx_vproc_resume(vproc, page), "zx_vproc_resume");
	thrd_join(thread, &kicked);
	check(kicked, "zx_vproc_kick");
	printf("kicked: %s, at the code's last instruction: %s\n", page->reason == HAFNON_VPROC_REASON_KICK ? "yes" : "no",
		page->state.ip == CODE + sizeof program - 2 ? "yes" : "no");
}

// An event that comes while the kernel itself runs is an upcall.
static volatile int upcalls;
static hafnon_vproc_vectors_t vectors __attribute__((aligned(16)));
static char upcall_stack[16384] __attribute__((aligned(16)));

static hafnon_vproc_events_t* events(void)
{
	return (hafnon_vproc_events_t*)((char*)page + HAFNON_VPROC_EVENTS_OFFSET);
}

static void upcall(void* context)
{
	volatile hafnon_vproc_events_t* e = context;
	// Takes the event. There is nothing bound of which it could tell more.
	e->pending = 0;
	upcalls++;
}

static void interrupt(void)
{
	volatile hafnon_vproc_events_t* e = events();
	zx_vproc_set_upcall(page, (uintptr_t)upcall_stack + sizeof upcall_stack, (uintptr_t)upcall, (uintptr_t)e);
	e->vectors = (uintptr_t)&vectors;
	e->enabled = 1;
	check(zx_vproc_kick(vproc), "zx_vproc_kick");
	e->enabled = 0;
	printf("upcalls: %d\n", upcalls);
	// With events disabled, a kick stays pending.
	check(zx_vproc_kick(vproc), "zx_vproc_kick");
	check(zx_vproc_wait(page), "zx_vproc_wait");
	printf("pending: %d, upcalls: %d\n", (int)e->pending, upcalls);
}

int main(void)
{
	load();
	create();
	run();
	preempt();
	interrupt();
	return 0;
}
