//! Events of the whole system: the memory pressure levels.

use abi::{
    Rights, Status, ZX_SYSTEM_EVENT_IMMINENT_OUT_OF_MEMORY, ZX_SYSTEM_EVENT_MEMORY_PRESSURE_CRITICAL,
    ZX_SYSTEM_EVENT_MEMORY_PRESSURE_NORMAL, ZX_SYSTEM_EVENT_MEMORY_PRESSURE_WARNING, ZX_SYSTEM_EVENT_OUT_OF_MEMORY,
};
use zx::{AsHandleRef, Event, Info, Job, Signals};

use super::{cases, raw, without};
use crate::check::{Failure, Outcome, equal, fails, gives};

const OOM: u32 = ZX_SYSTEM_EVENT_OUT_OF_MEMORY;
const CRITICAL: u32 = ZX_SYSTEM_EVENT_MEMORY_PRESSURE_CRITICAL;
const WARNING: u32 = ZX_SYSTEM_EVENT_MEMORY_PRESSURE_WARNING;
const NORMAL: u32 = ZX_SYSTEM_EVENT_MEMORY_PRESSURE_NORMAL;
const IMMINENT: u32 = ZX_SYSTEM_EVENT_IMMINENT_OUT_OF_MEMORY;

cases! {
    "system.get_event.oom" => || retrieve(OOM),
    "system.get_event.critical" => || retrieve(CRITICAL),
    "system.get_event.warning" => || retrieve(WARNING),
    "system.get_event.normal" => || retrieve(NORMAL),
    "system.get_event.imminent" => || retrieve(IMMINENT),
    "system.get_event.oom_not_to_be_signalled" => || not_to_be_signalled(OOM),
    "system.get_event.critical_not_to_be_signalled" => || not_to_be_signalled(CRITICAL),
    "system.get_event.warning_not_to_be_signalled" => || not_to_be_signalled(WARNING),
    "system.get_event.normal_not_to_be_signalled" => || not_to_be_signalled(NORMAL),
    "system.get_event.exactly_one" => exactly_one,
    "system.get_event.kinds" => kinds,
    "system.get_event.job" => job,
}

/// Programs are started with the root job.
fn root_job() -> Result<zx::Unowned<'static, Job>, Failure> {
    zx::startup::job_default().ok_or_else(|| "there is no job".into())
}

fn get(kind: u32) -> Result<Event, Failure> {
    Ok(zx::system_get_event(&*root_job()?, kind)?)
}

fn retrieve(kind: u32) -> Outcome {
    let mut out = 0_u32;
    let mut ask = |handle: u32, kind: u32, expected| -> Outcome {
        gives(raw!(zx_system_get_event, handle, kind, &raw mut out), expected)?;
        equal(out, 0)
    };
    ask(0, kind, Status::BAD_HANDLE)?;
    ask(zx::startup::process_self().raw_handle(), kind, Status::WRONG_TYPE)?;
    let root = root_job()?;
    ask(root.create_child()?.raw_handle(), kind, Status::ACCESS_DENIED)?;
    ask(root.raw_handle(), u32::MAX, Status::INVALID_ARGS)?;
    let event = get(kind)?;
    let basic = event.basic_info()?;
    equal(basic.koid != 0, true)?;
    let rights = abi::ZX_DEFAULT_SYSTEM_EVENT_LOW_MEMORY_RIGHTS.bits();
    equal((basic.type_, basic.rights), (abi::ZX_OBJ_TYPE_EVENT, rights))?;
    // Every call returns the same event.
    equal(get(kind)?.koid()?, basic.koid)
}

fn not_to_be_signalled(kind: u32) -> Outcome {
    let event = get(kind)?;
    let before = event.signals()?;
    fails(event.signal(Signals::NONE, Signals::from_bits_retain(1)), Status::ACCESS_DENIED)?;
    fails(event.signal(Signals::NONE, Signals::EVENT_SIGNALED), Status::ACCESS_DENIED)?;
    fails(event.signal(Signals::EVENT_SIGNALED, Signals::NONE), Status::ACCESS_DENIED)?;
    equal(event.signals()?, before)
}

fn exactly_one() -> Outcome {
    let mut signalled = Vec::new();
    for kind in [OOM, CRITICAL, WARNING, NORMAL, IMMINENT] {
        if get(kind)?.signals()?.contains(Signals::EVENT_SIGNALED) {
            signalled.push(kind);
        }
    }
    // The cases run in a machine with enough free memory.
    equal(signalled, vec![NORMAL])
}

fn kinds() -> Outcome {
    let job = root_job()?;
    for kind in [0, 6, u32::MAX] {
        fails(zx::system_get_event(&job, kind), Status::INVALID_ARGS)?;
    }
    Ok(())
}

fn job() -> Outcome {
    let root = root_job()?;
    fails(zx::system_get_event(&root.create_child()?, NORMAL), Status::ACCESS_DENIED)?;
    let weak = Job::from(without(&*root, Rights::MANAGE_PROCESS)?);
    fails(zx::system_get_event(&weak, NORMAL), Status::ACCESS_DENIED)?;
    let event = Job::from(Event::create()?.into_handle());
    fails(zx::system_get_event(&event, NORMAL), Status::WRONG_TYPE)
}
