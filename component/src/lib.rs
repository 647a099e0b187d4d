//! Native components: programs for the bare kernel that run beside the instances (`docs/native.md`).
//!
//! A component is a program of the target `x86_64-unknown-none` with one thread. It names its first function, and gets
//! what the system description gives it:
//!
//! ```ignore
//! #![no_std]
//! #![no_main]
//! component::start!(main);
//!
//! fn main(own: component::Own) -> ! {
//!     component::log!("I have {} bytes", own.memory.len());
//!     let mut request = own.endpoint.receive();
//!     loop {
//!         let sum = request.words().iter().fold(0, |sum: u64, word| sum.wrapping_add(*word));
//!         request = request.answer(0, &[sum]);
//!     }
//! }
//! ```
//!
//! Who calls is said by the badge ([`Request::from`]), which no caller can choose as a whole. What a message says is an
//! allegation like any other. A panic ends in an undefined instruction: the root task reports the component's end and,
//! if the description says so, starts it again with fresh memory.
#![no_std]

#[cfg(feature = "client")]
pub mod client;
mod endpoint;
mod log;

use core::slice;

pub use component_boot::Badge;
use component_boot::{Facts, MAGIC, layout};
pub use endpoint::{Endpoint, Request, WORDS};
pub use log::write_line;

/// What a component is given.
pub struct Own {
    /// Its endpoint, which the names lead to that it offers.
    pub endpoint: Endpoint,
    /// Its memory, all zero in each of its lives.
    pub memory: &'static mut [u8],
    /// How often [`counter`] counts in a microsecond.
    pub megahertz: u64,
    /// Which of its lives this is; the first is 1.
    pub life: u64,
}

impl Own {
    /// Takes over what the root task prepared.
    ///
    /// # Safety
    /// To be called once, by the code that [`start!`] makes, before anything else.
    #[doc(hidden)]
    pub unsafe fn take() -> Own {
        // SAFETY: the root task mapped the buffer there for this program's only thread.
        unsafe { sel4::ipc::init(core::ptr::with_exposed_provenance_mut(layout::IPC_BUFFER as usize)) };
        // SAFETY: the root task mapped the page there, and nobody writes to it.
        let facts = unsafe { &*core::ptr::with_exposed_provenance::<Facts>(layout::FACTS as usize) };
        assert!(facts.magic == MAGIC, "root task and component do not belong together");
        let memory = core::ptr::with_exposed_provenance_mut::<u8>(layout::MEMORY as usize);
        // SAFETY: so many bytes are mapped there for writing, and this is the only reference that there ever is to them.
        let memory = unsafe { slice::from_raw_parts_mut(memory, facts.memory as usize) };
        Own { endpoint: Endpoint::own(), memory, megahertz: facts.megahertz, life: facts.life }
    }
}

/// Makes a function, `fn(Own) -> !`, the first of the program.
#[macro_export]
macro_rules! start {
    ($main:path) => {
        const _: () = {
            extern "C" fn start() -> ! {
                let main: fn($crate::Own) -> ! = $main;
                // SAFETY: it is called once, by the only thread, before anything else.
                main(unsafe { $crate::Own::take() })
            }

            // SAFETY: the name is the one that the linker takes for the entry point.
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            extern "C" fn _start() -> ! {
        ::core::arch::naked_asm!("xor ebp, ebp", "call {start}", "ud2", start = sym start)
            }
        };
    };
}

/// Writes a line on the first serial port, with the component's name.
#[macro_export]
macro_rules! log {
    ($($arg:tt)*) => { $crate::write_line(::core::format_args!($($arg)*)) };
}

/// Ends the component: the root task reports it.
pub fn die() -> ! {
    // SAFETY: the instruction is undefined on purpose; nothing after it runs.
    unsafe { core::arch::asm!("ud2", options(noreturn, nostack)) }
}

#[cfg(target_os = "none")]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    log!("{info}");
    die()
}

/// The processor's counter, which counts [`Own::megahertz`] times in a microsecond.
pub fn counter() -> u64 {
    // SAFETY: the instruction only reads a counter, and the kernel leaves it to everyone.
    unsafe { core::arch::x86_64::_rdtsc() }
}
