//! Vector registers of threads that call a thread which claims never to use them.

use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

use sel4::bootinfo::{DOMAIN, INIT_VSPACE};
use sel4::{CPtr, Endpoint, Message, ObjectType, Tcb};

use crate::threads::{News, Plan, done, hear};
use crate::world::{Found, POISON, World, expect};

/// The callers' value in xmm5.
const SECRET: u64 = 0x5ec4_e700;

static NEWS: AtomicU64 = AtomicU64::new(0);
/// The endpoint of the attacker, and that of a trusted server.
static CALLS: AtomicU64 = AtomicU64::new(0);
static SERVES: AtomicU64 = AtomicU64::new(0);
/// A secret that the attacker saw.
static SEEN: AtomicU64 = AtomicU64::new(0);

fn endpoint(of: &AtomicU64) -> Endpoint {
    Endpoint(CPtr(of.load(SeqCst)))
}

fn look() -> u64 {
    let word: u64;
    // SAFETY: the compiler uses no vector registers here: the target has none.
    unsafe { asm!("movq {}, xmm5", out(reg) word) };
    word
}

fn put(word: u64) {
    // SAFETY: as above.
    unsafe { asm!("movq xmm5, {}", in(reg) word) };
}

/// Reads the register, and overwrites it.
fn steal() {
    if look() & !0xff == SECRET {
        SEEN.store(look(), SeqCst);
    }
    put(POISON);
}

extern "C" fn attacks(_: u64) -> ! {
    endpoint(&CALLS).recv();
    loop {
        steal();
        Endpoint::reply(Message::empty(0));
        for _ in 0..4 {
            sel4::r#yield();
            steal();
        }
        endpoint(&CALLS).recv();
    }
}

/// A trusted server: it is called, and calls the attacker to serve that.
extern "C" fn serves(_: u64) -> ! {
    endpoint(&SERVES).recv();
    loop {
        endpoint(&CALLS).call(Message::empty(0));
        endpoint(&SERVES).reply_recv(Message::empty(0));
    }
}

extern "C" fn is_attacked(_: u64) -> ! {
    let mut kept = true;
    for (round, at) in [&CALLS, &SERVES, &CALLS, &SERVES].into_iter().enumerate() {
        put(SECRET + round as u64);
        endpoint(at).call(Message::empty(0));
        kept &= look() == SECRET + round as u64;
        for _ in 0..8 {
            sel4::r#yield();
            kept &= look() == SECRET + round as u64;
        }
    }
    done(endpoint(&NEWS), kept.into())
}

/// The attacker makes the claim with its own thread's capability, and with other capabilities that it may have.
pub fn fpu(world: &mut World) -> Found {
    NEWS.store(world.news.cptr().0, SeqCst);
    CALLS.store(world.make(ObjectType::Endpoint).0, SeqCst);
    SERVES.store(world.make(ObjectType::Endpoint).0, SeqCst);
    let plan = |run, number| Plan::new(INIT_VSPACE, run, number);
    let attacker = plan(attacks, 0).make(world);
    let server = plan(serves, 1).make(world);
    let victim = plan(is_attacked, 2).make(world);
    for authority in [CPtr::NULL, attacker.cptr(), CPtr(CALLS.load(SeqCst)), world.slot()] {
        let _ = attacker.without_fpu(authority);
    }
    server.without_fpu(DOMAIN).map_err(|_| "who has the capability to domains is refused")?;
    for thread in [attacker, server, victim] {
        Tcb::resume(thread).map_err(|_| "no thread")?;
    }
    let heard = hear(world);
    expect(SEEN.load(SeqCst) == 0, "a thread that is called sees its caller's vector registers")?;
    expect(heard == News::Word(1), "a thread that was called has changed its caller's vector registers")
}
