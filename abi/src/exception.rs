//! Exceptions: their types, and what happens to the thread.

use crate::{zx_koid_t, zx_x86_64_exc_data_t};

consts! { TABLE;
    [u32]
        /// A fault that has no other type (general protection and similar).
        ZX_EXCP_GENERAL = 0x008;
        /// A memory access that cannot be served.
        ZX_EXCP_FATAL_PAGE_FAULT = 0x108;
        /// An undefined instruction.
        ZX_EXCP_UNDEFINED_INSTRUCTION = 0x208;
        /// A breakpoint instruction.
        ZX_EXCP_SW_BREAKPOINT = 0x308;
        /// A hardware breakpoint or watchpoint, or a single step.
        ZX_EXCP_HW_BREAKPOINT = 0x408;
        /// An unaligned access where none is allowed.
        ZX_EXCP_UNALIGNED_ACCESS = 0x508;
        /// Set in all exceptions that the system raises itself.
        ZX_EXCP_SYNTH = 0x8000;
        /// A thread starts (debuggers only).
        ZX_EXCP_THREAD_STARTING = 0x8008;
        /// A thread exits (debuggers only).
        ZX_EXCP_THREAD_EXITING = 0x8108;
        /// A job policy was violated.
        ZX_EXCP_POLICY_ERROR = 0x8208;
        /// A process starts (job debuggers only).
        ZX_EXCP_PROCESS_STARTING = 0x8308;
        /// `zx_thread_raise_exception`
        ZX_EXCP_USER = 0x8309;
        /// Code of a user exception: the process changed its name.
        ZX_EXCP_USER_CODE_PROCESS_NAME_CHANGED = 1;
        /// Code of a user exception: the program's own.
        ZX_EXCP_USER_CODE_USER0 = 0xf000;
        /// Code of a user exception: the program's own.
        ZX_EXCP_USER_CODE_USER1 = 0xf001;
        /// Code of a user exception: the program's own.
        ZX_EXCP_USER_CODE_USER2 = 0xf002;
        /// Code of a policy exception.
        ZX_EXCP_POLICY_CODE_BAD_HANDLE = 0;
        /// Code of a policy exception.
        ZX_EXCP_POLICY_CODE_WRONG_OBJECT = 1;
        /// Code of a policy exception.
        ZX_EXCP_POLICY_CODE_VMAR_WX = 2;
        /// Code of a policy exception.
        ZX_EXCP_POLICY_CODE_NEW_ANY = 3;
        /// Code of a policy exception.
        ZX_EXCP_POLICY_CODE_NEW_VMO = 4;
        /// Code of a policy exception.
        ZX_EXCP_POLICY_CODE_NEW_CHANNEL = 5;
        /// Code of a policy exception.
        ZX_EXCP_POLICY_CODE_NEW_EVENT = 6;
        /// Code of a policy exception.
        ZX_EXCP_POLICY_CODE_NEW_EVENTPAIR = 7;
        /// Code of a policy exception.
        ZX_EXCP_POLICY_CODE_NEW_PORT = 8;
        /// Code of a policy exception.
        ZX_EXCP_POLICY_CODE_NEW_SOCKET = 9;
        /// Code of a policy exception.
        ZX_EXCP_POLICY_CODE_NEW_FIFO = 10;
        /// Code of a policy exception.
        ZX_EXCP_POLICY_CODE_NEW_TIMER = 11;
        /// Code of a policy exception.
        ZX_EXCP_POLICY_CODE_NEW_PROCESS = 12;
        /// Code of a policy exception.
        ZX_EXCP_POLICY_CODE_NEW_PROFILE = 13;
        /// Code of a policy exception.
        ZX_EXCP_POLICY_CODE_NEW_PAGER = 14;
        /// Code of a policy exception.
        ZX_EXCP_POLICY_CODE_AMBIENT_MARK_VMO_EXEC = 15;
        /// A channel was full because its messages were not read.
        ZX_EXCP_POLICY_CODE_CHANNEL_FULL_WRITE = 16;
        /// A port was full.
        ZX_EXCP_POLICY_CODE_PORT_TOO_MANY_PACKETS = 17;
        /// A system call with an invalid number; the data is the number.
        ZX_EXCP_POLICY_CODE_BAD_SYSCALL = 18;
        /// Too many waits are bound to a port.
        ZX_EXCP_POLICY_CODE_PORT_TOO_MANY_OBSERVERS = 19;
        /// A call created a handle and could not store its value.
        ZX_EXCP_POLICY_CODE_HANDLE_LEAK = 20;
        /// Code of a policy exception.
        ZX_EXCP_POLICY_CODE_NEW_IOB = 21;
        /// Code of a policy exception.
        ZX_EXCP_POLICY_CODE_NEW_SAMPLER = 22;
        /// `zx_task_create_exception_channel`: create the debugger's channel.
        ZX_EXCEPTION_CHANNEL_DEBUGGER = 1;
        /// `zx_thread_raise_exception`: deliver to the job's debuggers.
        ZX_EXCEPTION_TARGET_JOB_DEBUGGER = 1;
        /// The thread waits for no exception handler.
        ZX_EXCEPTION_CHANNEL_TYPE_NONE = 0;
        /// The process's debugger channel.
        ZX_EXCEPTION_CHANNEL_TYPE_DEBUGGER = 1;
        /// The thread's channel.
        ZX_EXCEPTION_CHANNEL_TYPE_THREAD = 2;
        /// The process's channel.
        ZX_EXCEPTION_CHANNEL_TYPE_PROCESS = 3;
        /// A job's channel.
        ZX_EXCEPTION_CHANNEL_TYPE_JOB = 4;
        /// A job's debugger channel.
        ZX_EXCEPTION_CHANNEL_TYPE_JOB_DEBUGGER = 5;
        /// Maximum number of debugger channels of one job.
        ZX_EXCEPTION_CHANNEL_JOB_DEBUGGER_MAX_COUNT = 32;
        /// Closing the exception passes it to the next handler.
        ZX_EXCEPTION_STATE_TRY_NEXT = 0;
        /// Closing the exception resumes the thread.
        ZX_EXCEPTION_STATE_HANDLED = 1;
        /// Closing the exception ends the thread.
        ZX_EXCEPTION_STATE_THREAD_EXIT = 2;
        /// The debugger gets the exception only first.
        ZX_EXCEPTION_STRATEGY_FIRST_CHANCE = 0;
        /// The debugger gets the exception again after the process's handler.
        ZX_EXCEPTION_STRATEGY_SECOND_CHANCE = 1;
}

structs! { STRUCTS;
    #[doc = "An exception's particulars."]
    struct zx_exception_context_t {
        /// From the processor.
        arch: zx_x86_64_exc_data_t,
        /// From the system: a status for page faults, a code for synthetic exceptions.
        synth_code: u32,
        /// Additional data for `synth_code`.
        synth_data: u32,
    }
    #[doc = "Head of an exception report."]
    struct zx_exception_header_t {
        /// Bytes of the whole report.
        size: u32,
        /// `ZX_EXCP_*`
        type_: u32,
    }
    #[doc = "An exception, as `ZX_INFO_THREAD_EXCEPTION_REPORT` gives it."]
    struct zx_exception_report_t {
        /// Size and type.
        header: zx_exception_header_t,
        /// Particulars.
        context: zx_exception_context_t,
    }
    #[doc = "The message that comes through an exception channel, beside the exception's handle."]
    struct zx_exception_info_t {
        /// The process.
        pid: zx_koid_t,
        /// The thread.
        tid: zx_koid_t,
        /// `ZX_EXCP_*`
        type_: u32,
        /// Zero.
        padding1: [u8; 4],
    }
}
