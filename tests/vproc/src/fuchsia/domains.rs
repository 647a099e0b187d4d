//! The owner of a virtual processor with several sub-domains, checked against a model of each.
//!
//! The code of the sub-domains makes system calls, raises exceptions, and loads from and stores to pages that come and
//! go. Another thread kicks the owner, sends packets to it and suspends it, and a timer fires, at any moment. Each stop
//! must be the one that the model predicts, with all registers; a stop by an event must be a state on the way there.
//! The owner answers in all possible ways, switches between the sub-domains, ends them, and changes their memory. It
//! must see each packet exactly once.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

use abi::{
    HAFNON_VM_PAGE_TABLE, HAFNON_VPROC_FAULT_PRESENT, HAFNON_VPROC_FAULT_WRITE, Status, ZX_VM_PERM_EXECUTE,
    ZX_VM_PERM_READ, ZX_VM_PERM_WRITE, ZX_VM_SPECIFIC, ZX_VMO_OP_COMMIT, ZX_VMO_OP_DECOMMIT, hafnon_vproc_run_t,
    hafnon_vproc_state_t, zx_port_packet_t,
};
use conformance::check::{Failure, Outcome, ensure, equal, fails};
use conformance::test_process::{OwnJob, code};
use zx::probe::upcalls::{enable, with_upcalls};
use zx::{
    AsHandleRef, Duration, Events, Exit, MonotonicInstant, Port, Process, Rights, Signals, Thread, Timer,
    VirtualProcessor, Vmar, Vmo, Vproc, map_runs,
};

use super::model::{Access, CODE, DATA, Model, PAGE, PAGES, Stop, same};
use super::plan::{Dice, Plan, comes_first, sleep};

/// Sub-domains that exist at a time.
const DOMAINS: u64 = 4;
/// The bits of a page fault's code that are compared: the kind of access, and whether the page is present. Whether the
/// access was a fetch is known only if pages can be non-executable.
const CODE_BITS: u64 = HAFNON_VPROC_FAULT_PRESENT | HAFNON_VPROC_FAULT_WRITE | 1 << 2;
/// The key of the timer's packets; the sender's packets count from 0.
const TIMER: u64 = u64::MAX;

/// A sub-domain and its model.
struct Domain {
    process: Process,
    vmar: Vmar,
    code: Vmo,
    memory: Vmo,
    /// Its data is in a page table.
    table: bool,
    model: Model,
    ended: bool,
}

fn run(address: u64, offset: u64, options: u32) -> hafnon_vproc_run_t {
    hafnon_vproc_run_t { address, offset, len: PAGE, options, reserved: 0 }
}

impl Domain {
    fn new(job: &OwnJob, dice: &mut Dice) -> Result<Self, Failure> {
        let (process, vmar) = job.create_process("domain")?;
        let model = Model::new(dice);
        let (code, memory) = (code(model.code())?, Vmo::create(PAGES as u64 * PAGE, 0)?);
        let table = dice.once_in(2);
        if table {
            let (options, base) = (HAFNON_VM_PAGE_TABLE | ZX_VM_SPECIFIC, vmar.info()?.base);
            vmar.map(options, DATA as usize - base, &memory, 0, PAGES * PAGE as usize)?;
        }
        Ok(Self { process, vmar, code, memory, table, model, ended: false })
    }

    fn map_data(&mut self, page: usize, access: Access) -> zx::Result<()> {
        let options = match access {
            Access::None => 0,
            Access::Load => ZX_VM_PERM_READ,
            Access::Store => ZX_VM_PERM_READ | ZX_VM_PERM_WRITE,
        };
        let offset = page as u64 * PAGE;
        self.memory.op_range(ZX_VMO_OP_COMMIT, offset, PAGE)?;
        self.model.data[page] = access;
        map_runs(&self.vmar, &self.memory, &[run(DATA + offset, offset, options)])
    }

    fn map_code(&mut self, place: usize, shown: bool) -> zx::Result<()> {
        self.model.shown[place] = shown;
        let options = if shown { ZX_VM_PERM_READ | ZX_VM_PERM_EXECUTE } else { 0 };
        map_runs(&self.vmar, &self.code, &[run(CODE[place], 0, options)])
    }

    /// A change of its memory that its code does not make.
    fn change_memory(&mut self, dice: &mut Dice) -> Outcome {
        let page = dice.roll(PAGES as u64) as usize;
        let offset = page as u64 * PAGE;
        match dice.roll(6) {
            0 => self.map_data(page, dice.choose(&[Access::None, Access::Load, Access::Store]))?,
            1 => self.map_code(dice.roll(CODE.len() as u64) as usize, dice.once_in(2))?,
            2 => {
                let decommitted = self.memory.op_range(ZX_VMO_OP_DECOMMIT, offset, PAGE);
                equal(decommitted, if self.table { Err(Status::BAD_STATE) } else { Ok(()) })?;
                if decommitted.is_ok() {
                    self.model.clear(page);
                }
            }
            3 => {
                let (word, value) = (dice.roll(PAGES as u64 * PAGE / 8), dice.word());
                self.memory.write(&value.to_le_bytes(), word * 8)?;
                self.model.set_word(word as usize, value);
            }
            _ => {
                let mut bytes = vec![0; PAGE as usize];
                self.memory.read(&mut bytes, offset)?;
                ensure(bytes == self.model.page(page), "its memory is not what it has stored")?;
            }
        }
        Ok(())
    }
}

/// How often each event has happened.
#[derive(Clone, Copy, Default, Debug)]
struct Counts {
    syscalls: u64,
    page_faults: u64,
    exceptions: u64,
    kicks: u64,
    ends: u64,
}

/// What stopped code needs in order to continue.
#[derive(Clone, Copy, PartialEq)]
enum Go {
    Resume,
    Enter,
}

/// The owner.
struct Owner<'v> {
    processor: VirtualProcessor<'v>,
    job: OwnJob,
    domains: Vec<Domain>,
    /// The sub-domain that was entered last.
    current: usize,
    dice: Dice,
    counts: Counts,
    /// A hash of everything that was reported to it.
    digest: u64,
}

impl Owner<'_> {
    fn digest(&mut self, words: &[u64]) {
        for word in words {
            self.digest = (self.digest ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
        }
    }

    /// Checks a stop against the model. Returns what the code needs in order to continue.
    fn told(&mut self, exit: Exit) -> Result<Go, Failure> {
        let told = *self.processor.state();
        let page = *self.processor.page();
        self.digest(&[page.reason, told.ip]);
        let model = &mut self.domains[self.current].model;
        if exit == Exit::Kick {
            self.counts.kicks += 1;
            let before = model.state;
            let stands = model.run_to(&told);
            ensure(stands, &format!("from {before:x?} it is at {told:x?}, and not at {:x?}", model.state))?;
            return Ok(Go::Enter);
        }
        let stop = model.run();
        let state = model.state;
        match (exit, stop) {
            (Exit::Syscall, Stop::Syscall) => {
                self.counts.syscalls += 1;
                model.told_of_syscall();
                let bases = hafnon_vproc_state_t { fs_base: state.fs_base, gs_base: state.gs_base, ..told };
                ensure(same(&bases, &model.state), &format!("a call with {told:x?}, not {:x?}", model.state))?;
                return Ok(Go::Resume);
            }
            (Exit::PageFault(at), Stop::PageFault { address, code }) => {
                self.counts.page_faults += 1;
                equal((at, page.address, page.ip), (address, address, state.ip))?;
                equal(page.code & CODE_BITS, code)?;
            }
            (Exit::Exception(vector), Stop::Exception(number)) => {
                self.counts.exceptions += 1;
                equal((vector, page.vector, page.ip), (number, number, state.ip))?;
                let shown = hafnon_vproc_state_t { ip: told.ip, rsp: told.rsp, flags: told.flags, ..state };
                ensure(same(&shown, &state), &format!("an exception with {shown:x?}, not {state:x?}"))?;
            }
            (exit, stop) => return Err(format!("{exit:?} and not {stop:?} at {state:x?}").into()),
        }
        if self.dice.once_in(3) {
            self.processor.fill_state()?;
            let told = *self.processor.state();
            ensure(same(&told, &state), &format!("it stands with {told:x?}, not {state:x?}"))?;
            return Ok(Go::Enter);
        }
        Ok(Go::Resume)
    }

    /// Answers a stop in a random way, and updates the model accordingly.
    fn answer(&mut self, exit: Exit, go: Go) -> Result<Go, Failure> {
        let (dice, domain) = (&mut self.dice, &mut self.domains[self.current]);
        if domain.ended {
            fails(self.processor.enter(&domain.process), Status::BAD_STATE)?;
            *domain = Domain::new(&self.job, dice)?;
            return Ok(Go::Enter);
        }
        let model = &mut domain.model;
        match exit {
            Exit::PageFault(at) => {
                let (page, place) = (at.wrapping_sub(DATA) / PAGE, CODE.iter().position(|code| code ^ at < PAGE));
                match place {
                    _ if dice.once_in(16) => {}
                    Some(place) => domain.map_code(place, true)?,
                    None if page < PAGES as u64 => {
                        let stores = self.processor.page().code & HAFNON_VPROC_FAULT_WRITE != 0;
                        let access = if stores || dice.once_in(2) { Access::Store } else { Access::Load };
                        domain.map_data(page as usize, access)?;
                    }
                    None => {
                        model.change(dice);
                        return Ok(Go::Enter);
                    }
                }
            }
            Exit::Exception(_) if dice.once_in(3) => {
                model.change(dice);
                model.go_elsewhere(dice);
                return Ok(Go::Enter);
            }
            Exit::Exception(_) => {
                model.skip(dice);
                if dice.once_in(2) {
                    model.change_of_exception(dice);
                }
            }
            _ if dice.once_in(2) => {
                let bases = (model.state.fs_base, model.state.gs_base);
                model.change(dice);
                if dice.once_in(2) {
                    model.go_elsewhere(dice);
                }
                if go == Go::Resume {
                    (model.state.fs_base, model.state.gs_base) = bases;
                }
            }
            _ => {}
        }
        Ok(go)
    }

    /// Does something else that an owner can do while no code runs.
    fn meanwhile(&mut self, mut go: Go) -> Result<Go, Failure> {
        if self.dice.once_in(8) {
            let n = self.dice.roll(DOMAINS) as usize;
            if !self.domains[n].ended {
                self.domains[n].change_memory(&mut self.dice)?;
            }
        }
        if self.dice.once_in(400) {
            let n = self.dice.roll(DOMAINS) as usize;
            let domain = &mut self.domains[n];
            domain.process.kill()?;
            domain.process.wait_one(Signals::TASK_TERMINATED, MonotonicInstant::INFINITE)?;
            domain.model.end();
            domain.ended = true;
            self.counts.ends += 1;
        }
        if self.dice.once_in(5) {
            self.current = self.dice.roll(DOMAINS) as usize;
            go = Go::Enter;
        }
        let domain = &mut self.domains[self.current];
        if domain.ended && go == Go::Enter {
            fails(self.processor.enter(&domain.process), Status::BAD_STATE)?;
            *domain = Domain::new(&self.job, &mut self.dice)?;
        }
        Ok(go)
    }

    fn go(&mut self, go: Go, exit: Exit) -> Result<Exit, Failure> {
        let domain = &mut self.domains[self.current];
        if exit == Exit::Syscall && go == Go::Resume {
            domain.model.answered();
        }
        *self.processor.state() = domain.model.state;
        Ok(match go {
            Go::Resume => self.processor.resume()?,
            Go::Enter => self.processor.enter(&domain.process)?,
        })
    }
}

/// The other thread, which sends events.
struct Sender<'s> {
    vproc: Vproc,
    owner: Thread,
    port: &'s Port,
    over: &'s AtomicBool,
    sent: &'s AtomicU64,
}

impl Sender<'_> {
    /// Returns how often it has suspended the owner.
    fn send(self, mut dice: Dice) -> zx::Result<u64> {
        comes_first()?;
        let mut suspended = 0;
        while !self.over.load(SeqCst) {
            match dice.roll(16) {
                0..6 => self.vproc.kick()?,
                6..10 => {
                    self.port.queue(&zx_port_packet_t { key: self.sent.load(SeqCst), ..Default::default() })?;
                    self.sent.fetch_add(1, SeqCst);
                }
                10 | 11 => {
                    let token = self.owner.suspend()?;
                    self.owner.wait_one(Signals::THREAD_SUSPENDED, MonotonicInstant::INFINITE)?;
                    if dice.once_in(2) {
                        self.vproc.kick()?;
                    }
                    sleep(&mut dice, 20_000)?;
                    drop(token);
                    suspended += 1;
                }
                _ => {}
            }
            sleep(&mut dice, 100_000)?;
        }
        Ok(suspended)
    }
}

/// See the module's description.
pub fn domains(plan: Plan) -> Outcome {
    let root = zx::startup::vmar_root_self();
    let processor = VirtualProcessor::create(&root)?;
    let (port, timer) = (Port::create()?, Timer::create(0)?);
    processor.handle().bind(&port)?;
    let (over, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let vproc = processor.handle().duplicate(Rights::SAME_RIGHTS)?;
    let owner = zx::startup::thread_self().duplicate(Rights::SAME_RIGHTS)?;
    let sender = Sender { vproc, owner, port: &port, over: &over, sent: &sent };
    // Packets of the sender that were seen, and those that were out of order; packets of the timer, and whether one is
    // to come.
    let (taken, wrong, fired, armed) = (Cell::new(0_u64), Cell::new(0_u64), Cell::new(0_u64), Cell::new(false));
    let look = || {
        while let Ok(packet) = port.wait(MonotonicInstant::ZERO) {
            if packet.key == TIMER {
                fired.set(fired.get() + 1);
                armed.set(false);
            } else {
                wrong.set(wrong.get() + u64::from(packet.key != taken.get()));
                taken.set(taken.get() + 1);
            }
        }
    };
    let upcalls = Cell::new(0_u64);
    let event = |_: Events| {
        upcalls.set(upcalls.get() + 1);
        look();
    };
    let (job, mut dice) = (OwnJob::new()?, plan.dice(0));
    let domains = (0..DOMAINS).map(|_| Domain::new(&job, &mut dice)).collect::<Result<_, _>>()?;
    let mut owner =
        Owner { processor, job, domains, current: 0, dice: plan.dice(1), counts: Counts::default(), digest: 0 };
    thread::scope(|scope| {
        let sender = scope.spawn(|| sender.send(plan.dice(2)));
        let outcome = with_upcalls(owner.processor.events(), &event, |events| -> Result<u64, Failure> {
            let (mut go, mut exit, mut set) = (Go::Enter, Exit::Kick, 0);
            for step in 0..plan.steps {
                let in_step = |failure: Failure| Failure::from(format!("step {step}: {failure}"));
                exit = owner.go(go, exit).map_err(in_step)?;
                go = owner.told(exit).map_err(in_step)?;
                if exit == Exit::Kick {
                    look();
                }
                go = owner.answer(exit, go).map_err(in_step)?;
                go = owner.meanwhile(go).map_err(in_step)?;
                if !armed.get() && dice.once_in(4) {
                    armed.set(true);
                    set += 1;
                    timer.set(MonotonicInstant::after(Duration::from_nanos(dice.roll(200_000) as i64)), Duration(0))?;
                    timer.wait_async(&port, TIMER, Signals::TIMER_SIGNALED, 0)?;
                }
                match dice.roll(16) {
                    0..4 => {
                        enable(events, &event);
                        if dice.once_in(8) {
                            sleep(&mut dice, 30_000)?;
                        }
                        for _ in 0..dice.roll(300) {
                            std::hint::spin_loop();
                        }
                        events.disable();
                    }
                    // This ends the right to answer the stop.
                    4 if go == Go::Enter => {
                        events.wait();
                        events.take();
                        look();
                    }
                    _ => {}
                }
            }
            Ok(set)
        });
        over.store(true, SeqCst);
        let suspended = sender.join().map_err(|_| "the sender panicked")??;
        let set = outcome?;
        while armed.get() {
            zx::nanosleep(MonotonicInstant::after(Duration::from_millis(1)))?;
            look();
        }
        look();
        equal((taken.get(), wrong.get(), fired.get()), (sent.load(SeqCst), 0, set))?;
        let Counts { syscalls, page_faults, exceptions, kicks, ends } = owner.counts;
        eprintln!(
            "random domains: {} steps: {syscalls} system calls, {page_faults} page faults, {exceptions} other exceptions, {kicks} \
             stops by events; {} upcalls, {} packets, {set} timers, {suspended} suspensions, {ends} ends; digest {:016x}",
            plan.steps,
            upcalls.get(),
            taken.get(),
            owner.digest
        );
        let rare = [syscalls, page_faults, exceptions, kicks, upcalls.get(), taken.get(), set, suspended, ends];
        ensure(rare.iter().all(|count| count * 2_000 >= plan.steps), "there was too little of something")
    })
}
