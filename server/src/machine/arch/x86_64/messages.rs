//! Message-signalled interrupts.

/// The address to which devices write messages, without the processor's number.
const MESSAGE_ADDRESS: u64 = 0xfee0_0000;

/// The address to which devices write messages for this processor.
pub fn message_address() -> u64 {
    // The number of its APIC.
    let processor = (core::arch::x86_64::__cpuid(1).ebx >> 24) as u8;
    MESSAGE_ADDRESS | u64::from(processor) << 12
}
