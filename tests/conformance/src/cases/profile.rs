//! Profiles and their effects on threads.

use abi::{
    Rights, Status, ZX_PRIORITY_DEFAULT, ZX_PRIORITY_HIGH, ZX_PRIORITY_HIGHEST, ZX_PRIORITY_LOW, ZX_PRIORITY_LOWEST,
    ZX_PROFILE_INFO_FLAG_CPU_MASK, ZX_PROFILE_INFO_FLAG_DEADLINE, ZX_PROFILE_INFO_FLAG_MEMORY_PRIORITY,
    ZX_PROFILE_INFO_FLAG_NO_INHERIT, ZX_PROFILE_INFO_FLAG_PRIORITY, ZX_RSRC_KIND_MMIO, ZX_RSRC_KIND_SYSTEM,
    ZX_RSRC_SYSTEM_PROFILE_BASE, zx_profile_info_t,
};
use zx::{AsHandleRef, Info, MonotonicInstant, Profile, Vmo};

use super::asleep::joined;
use super::{cases, raw, root_resource, without};
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};
use crate::puppet::{Puppet, function};
use crate::test_process::{self, OwnJob, SPIN, TestProcess};

cases! {
    "profile.create.bad_handle" => create_bad_handle,
    "profile.create.no_info" => create_no_info,
    "profile.create.no_out" => create_no_out,
    "profile.create.nothing_asked_for" => create_nothing_asked_for,
    "profile.create.exclusive_flags" => create_exclusive_flags,
    "profile.create.unknown_flags" => create_unknown_flags,
    "profile.create.options" => create_options,
    "profile.create.resource" => create_resource,
    "profile.create.no_resource" => create_no_resource,
    "profile.create.priority_lowest" => || create_priority(ZX_PRIORITY_LOWEST),
    "profile.create.priority_low" => || create_priority(ZX_PRIORITY_LOW),
    "profile.create.priority_default" => || create_priority(ZX_PRIORITY_DEFAULT),
    "profile.create.priority_high" => || create_priority(ZX_PRIORITY_HIGH),
    "profile.create.priority_highest" => || create_priority(ZX_PRIORITY_HIGHEST),
    "profile.create.priority_too_low" => create_priority_too_low,
    "profile.create.priority_too_high" => create_priority_too_high,
    "profile.create.deadline" => create_deadline,
    "profile.create.deadline_without_capacity" => create_deadline_without_capacity,
    "profile.create.deadline_below_capacity" => create_deadline_below_capacity,
    "profile.create.deadline_above_period" => create_deadline_above_period,
    "profile.create.deadline_not_inherited" => create_deadline_not_inherited,
    "profile.create.memory_priority" => create_memory_priority,
    "profile.create.denied_by_policy" => create_denied_by_policy,
    "profile.create.rights" => create_rights,
    "profile.cpu_mask.empty" => cpu_mask_empty,
    "profile.cpu_mask.applied" => cpu_mask_applied,
    "profile.cpu_mask.kept" => cpu_mask_kept,
    "object.set_profile.thread" => set_thread,
    "object.set_profile.states" => set_states,
    "object.set_profile.options" => set_options,
    "object.set_profile.handles" => set_handles,
    "object.set_profile.vmar" => set_vmar,
    "object.set_profile.higher_runs_first" => higher_runs_first,
}

fn priority(priority: i32) -> zx_profile_info_t {
    let parameters = [u64::from(priority as u32), 0, 0];
    zx_profile_info_t { flags: ZX_PROFILE_INFO_FLAG_PRIORITY, parameters, ..Default::default() }
}

fn deadline(capacity: u64, deadline: u64, period: u64) -> zx_profile_info_t {
    let parameters = [capacity, deadline, period];
    zx_profile_info_t { flags: ZX_PROFILE_INFO_FLAG_DEADLINE, parameters, ..Default::default() }
}

fn mask(cpus: u64) -> zx_profile_info_t {
    let mut info = zx_profile_info_t { flags: ZX_PROFILE_INFO_FLAG_CPU_MASK, ..Default::default() };
    info.cpu_affinity_mask.mask[0] = cpus;
    info
}

fn create(info: &zx_profile_info_t) -> Result<zx::Result<Profile>, Failure> {
    Ok(Profile::create(&*root_resource()?, 0, info))
}

fn create_bad_handle() -> Outcome {
    let mut out = 0_u32;
    let info = priority(ZX_PRIORITY_LOWEST);
    gives(raw!(zx_profile_create, 0, 0, &raw const info, &raw mut out), Status::BAD_HANDLE)?;
    equal(out, 0)
}

fn create_no_info() -> Outcome {
    let mut out = 0_u32;
    let root = root_resource()?;
    gives(raw!(zx_profile_create, root.raw_handle(), 0, 0, &raw mut out), Status::INVALID_ARGS)
}

fn create_no_out() -> Outcome {
    let info = priority(ZX_PRIORITY_LOWEST);
    let root = root_resource()?;
    gives(raw!(zx_profile_create, root.raw_handle(), 0, &raw const info, 0), Status::INVALID_ARGS)
}

fn create_nothing_asked_for() -> Outcome {
    fails(create(&zx_profile_info_t::default())?, Status::INVALID_ARGS)?;
    let info = zx_profile_info_t { flags: ZX_PROFILE_INFO_FLAG_NO_INHERIT, ..Default::default() };
    fails(create(&info)?, Status::INVALID_ARGS)
}

fn create_exclusive_flags() -> Outcome {
    let kinds = [ZX_PROFILE_INFO_FLAG_PRIORITY, ZX_PROFILE_INFO_FLAG_DEADLINE, ZX_PROFILE_INFO_FLAG_MEMORY_PRIORITY];
    for kind in kinds {
        for other in kinds.into_iter().filter(|other| *other != kind) {
            // These numbers are valid both as a deadline and as a priority.
            let info = zx_profile_info_t { flags: kind | other, parameters: [16, 32, 64], ..Default::default() };
            fails(create(&info)?, Status::INVALID_ARGS)?;
        }
    }
    Ok(())
}

fn create_unknown_flags() -> Outcome {
    for bit in 5..32 {
        let info = zx_profile_info_t { flags: 1 << bit | ZX_PROFILE_INFO_FLAG_PRIORITY, ..Default::default() };
        fails(create(&info)?, Status::INVALID_ARGS)?;
    }
    Ok(())
}

fn create_options() -> Outcome {
    fails(Profile::create(&*root_resource()?, 1, &priority(0)), Status::INVALID_ARGS)
}

fn create_resource() -> Outcome {
    let root = root_resource()?;
    let system = |base| root.create_child(ZX_RSRC_KIND_SYSTEM, base, 1, "profiles");
    Profile::create(&system(ZX_RSRC_SYSTEM_PROFILE_BASE)?, 0, &priority(0))?;
    for other in [ZX_RSRC_SYSTEM_PROFILE_BASE + 1, abi::ZX_RSRC_SYSTEM_POWER_BASE] {
        fails(Profile::create(&system(other)?, 0, &priority(0)), Status::ACCESS_DENIED)?;
    }
    let memory = root.create_child(ZX_RSRC_KIND_MMIO, 0x10_0000, 4096, "memory")?;
    fails(Profile::create(&memory, 0, &priority(0)), Status::WRONG_TYPE)
}

fn create_no_resource() -> Outcome {
    // Earlier versions of Zircon accepted the root job.
    let job = zx::startup::job_default().ok_or("there is no job")?;
    for job in [
        zx::Resource::from(job.duplicate(Rights::SAME_RIGHTS)?.into_handle()),
        job.create_child()?.into_handle().into(),
    ] {
        fails(Profile::create(&job, 0, &priority(0)), Status::WRONG_TYPE)?;
    }
    Ok(())
}

fn create_priority(number: i32) -> Outcome {
    for more in [0, ZX_PROFILE_INFO_FLAG_NO_INHERIT, ZX_PROFILE_INFO_FLAG_CPU_MASK] {
        let mut info = priority(number);
        info.flags |= more;
        test_process::koid(&create(&info)??)?;
    }
    Ok(())
}

fn create_priority_too_low() -> Outcome {
    for number in [ZX_PRIORITY_LOWEST - 1, i32::MIN] {
        fails(create(&priority(number))?, Status::INVALID_ARGS)?;
    }
    Ok(())
}

fn create_priority_too_high() -> Outcome {
    for number in [ZX_PRIORITY_HIGHEST + 1, i32::MAX] {
        fails(create(&priority(number))?, Status::INVALID_ARGS)?;
    }
    Ok(())
}

fn create_deadline() -> Outcome {
    for info in [deadline(2_000_000, 8_000_000, 10_000_000), deadline(5, 5, 5), deadline(5, 10, 10)] {
        create(&info)??;
    }
    Ok(())
}

fn create_deadline_without_capacity() -> Outcome {
    fails(create(&deadline(0, 1_000_000, 2_000_000))?, Status::INVALID_ARGS)?;
    fails(create(&deadline(u64::MAX, 1_000_000, 2_000_000))?, Status::INVALID_ARGS)
}

fn create_deadline_below_capacity() -> Outcome {
    fails(create(&deadline(1_000_001, 1_000_000, 2_000_000))?, Status::INVALID_ARGS)
}

fn create_deadline_above_period() -> Outcome {
    fails(create(&deadline(1_000_000, 2_000_001, 2_000_000))?, Status::INVALID_ARGS)
}

fn create_deadline_not_inherited() -> Outcome {
    let mut info = deadline(1_000_000, 2_000_000, 2_000_000);
    info.flags |= ZX_PROFILE_INFO_FLAG_NO_INHERIT;
    fails(create(&info)?, Status::INVALID_ARGS)
}

fn memory(priority: i32) -> zx_profile_info_t {
    let parameters = [u64::from(priority as u32), 0, 0];
    zx_profile_info_t { flags: ZX_PROFILE_INFO_FLAG_MEMORY_PRIORITY, parameters, ..Default::default() }
}

fn create_memory_priority() -> Outcome {
    for number in [ZX_PRIORITY_DEFAULT, ZX_PRIORITY_HIGH] {
        create(&memory(number))??;
    }
    for number in [ZX_PRIORITY_LOW, ZX_PRIORITY_HIGHEST, -1] {
        fails(create(&memory(number))?, Status::INVALID_ARGS)?;
    }
    Ok(())
}

fn create_denied_by_policy() -> Outcome {
    let job = OwnJob::new()?;
    let entry = abi::zx_policy_basic_v2_t {
        condition: abi::ZX_POL_NEW_PROFILE,
        action: abi::ZX_POL_ACTION_DENY,
        flags: abi::ZX_POL_OVERRIDE_DENY,
    };
    job.set_policy(abi::ZX_JOB_POL_ABSOLUTE, &[entry])?;
    let puppet = Puppet::new(&job)?;
    let root = puppet.give(root_resource()?.duplicate_handle(Rights::SAME_RIGHTS)?)?;
    let room = puppet.room(0)?;
    // The memory does not hold valid parameters: the policy is checked first.
    gives(puppet.call(function!(zx_profile_create), &[root, 0, room, room])?, Status::ACCESS_DENIED)
}

fn create_rights() -> Outcome {
    let basic = create(&priority(0))??.basic_info()?;
    equal((basic.type_, basic.rights), (abi::ZX_OBJ_TYPE_PROFILE, abi::ZX_DEFAULT_PROFILE_RIGHTS.bits()))
}

/// Gives the calling thread a profile, and then its old priority.
fn apply_here(profile: &Profile) -> Outcome {
    let set = zx::startup::thread_self().set_profile(profile, 0);
    zx::startup::thread_self().set_profile(&create(&priority(ZX_PRIORITY_DEFAULT))??, 0)?;
    Ok(set?)
}

/// The affinity mask that a thread reports.
fn processors(thread: &zx::Thread) -> Result<[u64; 8], Failure> {
    Ok(thread.info()?.cpu_affinity_mask.mask)
}

fn words(first: u64) -> [u64; 8] {
    [first, 0, 0, 0, 0, 0, 0, 0]
}

/// Runs a new thread with a profile; returns the affinity mask that it reports, and the processor that it ran on.
fn runs_with(profile: Profile) -> Result<([u64; 8], u32), Failure> {
    let run = move || -> Result<_, Failure> {
        let this = zx::startup::thread_self();
        this.set_profile(&profile, 0)?;
        Ok((processors(&this)?, this.stats()?.last_scheduled_cpu))
    };
    joined(std::thread::spawn(run))?
}

fn cpu_mask_empty() -> Outcome {
    // A thread with an empty mask runs all the same.
    equal(runs_with(create(&mask(0))??)?, (words(0), 0))
}

fn cpu_mask_applied() -> Outcome {
    // The machine has one processor; a thread also keeps the bits of processors that do not exist.
    for cpus in [1, 3, 2, 0x8000_0001, 1 << 63, u64::MAX] {
        equal(runs_with(create(&mask(cpus))??)?, (words(cpus), 0))?;
    }
    // Words after the first one are ignored: no system has that many processors.
    let mut far = mask(1);
    far.cpu_affinity_mask.mask[7] = 1;
    equal(runs_with(create(&far)??)?, (words(1), 0))?;
    let mut both = priority(ZX_PRIORITY_HIGH);
    both.flags |= ZX_PROFILE_INFO_FLAG_CPU_MASK;
    both.cpu_affinity_mask.mask[0] = 5;
    equal(runs_with(create(&both)??)?, (words(5), 0))
}

fn cpu_mask_kept() -> Outcome {
    let tiny = TestProcess::new(SPIN)?;
    equal(processors(&tiny.thread)?, words(1))?;
    tiny.thread.set_profile(&create(&mask(6))??, 0)?;
    equal(processors(&tiny.thread)?, words(6))?;
    tiny.start(None, 0)?;
    // A profile without a mask does not change the thread's mask, whatever its mask field contains.
    let mut other = priority(ZX_PRIORITY_LOW);
    other.cpu_affinity_mask.mask[0] = 9;
    tiny.thread.set_profile(&create(&other)??, 0)?;
    equal(processors(&tiny.thread)?, words(6))?;
    // Another thread of the process has its own mask.
    equal(processors(&tiny.process.create_thread("second")?)?, words(1))?;
    tiny.process.kill()?;
    tiny.end()?;
    equal(processors(&tiny.thread)?, words(0))
}

fn set_thread() -> Outcome {
    for number in [ZX_PRIORITY_LOWEST, ZX_PRIORITY_DEFAULT, ZX_PRIORITY_HIGHEST] {
        apply_here(&create(&priority(number))??)?;
    }
    apply_here(&create(&deadline(1_000_000, 2_000_000, 2_000_000))??)
}

fn set_states() -> Outcome {
    let profile = create(&priority(ZX_PRIORITY_LOW))??;
    let tiny = TestProcess::new(SPIN)?;
    tiny.thread.set_profile(&profile, 0)?;
    tiny.start(None, 0)?;
    tiny.thread.set_profile(&profile, 0)?;
    tiny.process.kill()?;
    tiny.end()?;
    fails(tiny.thread.set_profile(&profile, 0), Status::BAD_STATE)
}

fn set_options() -> Outcome {
    fails(zx::startup::thread_self().set_profile(&create(&priority(16))??, 1), Status::INVALID_ARGS)
}

fn set_handles() -> Outcome {
    let profile = create(&priority(ZX_PRIORITY_DEFAULT))??;
    let thread = zx::startup::thread_self();
    let weak = zx::Thread::from(without(&*thread, Rights::MANAGE_THREAD)?);
    fails(weak.set_profile(&profile, 0), Status::ACCESS_DENIED)?;
    let useless = Profile::from(without(&profile, Rights::APPLY_PROFILE)?);
    fails(thread.set_profile(&useless, 0), Status::ACCESS_DENIED)?;
    let no_profile = Profile::from(Vmo::create(0, 0)?.into_handle());
    fails(thread.set_profile(&no_profile, 0), Status::WRONG_TYPE)?;
    let vmo = Vmo::create(0, 0)?;
    let set = |target: u32, profile: u32| raw!(zx_object_set_profile, target, profile, 0);
    gives(set(vmo.raw_handle(), profile.raw_handle()), Status::WRONG_TYPE)?;
    gives(set(0, profile.raw_handle()), Status::BAD_HANDLE)?;
    gives(set(thread.raw_handle(), 0), Status::BAD_HANDLE)
}

fn set_vmar() -> Outcome {
    let (region, _) = zx::startup::vmar_root_self().allocate(0, 0, 4096)?;
    let profiles = [create(&memory(ZX_PRIORITY_HIGH))??, create(&priority(ZX_PRIORITY_HIGH))??];
    let set = |target: u32, profile: &Profile| raw!(zx_object_set_profile, target, profile.raw_handle(), 0);
    gives(set(region.raw_handle(), &profiles[0]), Status::OK)?;
    gives(set(region.raw_handle(), &profiles[1]), Status::WRONG_TYPE)?;
    gives(set(zx::startup::thread_self().raw_handle(), &profiles[0]), Status::WRONG_TYPE)?;
    let weak = without(&region, Rights::OP_CHILDREN)?;
    gives(set(weak.raw_handle(), &profiles[0]), Status::ACCESS_DENIED)?;
    region.destroy()?;
    Ok(())
}

/// `inc dword [rsi]; jmp .-2`: counts forever.
const COUNT: &[u8] = &[0xff, 0x06, 0xeb, 0xfc];

fn higher_runs_first() -> Outcome {
    let counting = |number: i32| -> Result<(TestProcess, Vmo), Failure> {
        let tiny = TestProcess::new(COUNT)?;
        let page = Vmo::create(4096, 0)?;
        let options = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE;
        let address = tiny.vmar.map(options, 0, &page, 0, 4096)?;
        tiny.thread.set_profile(&create(&priority(number))??, 0)?;
        tiny.start(None, address)?;
        Ok((tiny, page))
    };
    let count = |page: &Vmo| -> Result<u32, Failure> {
        let mut bytes = [0; 4];
        page.read(&mut bytes, 0)?;
        Ok(u32::from_le_bytes(bytes))
    };
    let (low, low_page) = counting(ZX_PRIORITY_LOW - 1)?;
    let (high, high_page) = counting(ZX_PRIORITY_LOW)?;
    // While this thread sleeps, only the higher of the two runs. The counts are read twice, because the first interval
    // may include earlier runs.
    zx::nanosleep(super::soon(30))?;
    let before = (count(&low_page)?, count(&high_page)?);
    let limit = super::late();
    loop {
        zx::nanosleep(super::soon(60))?;
        equal(count(&low_page)?, before.0)?;
        if count(&high_page)? != before.1 {
            break;
        }
        ensure(MonotonicInstant::now() < limit, "the higher one did not run")?;
    }
    high.process.kill()?;
    high.end()?;
    let limit = super::late();
    while count(&low_page)? == before.0 {
        ensure(MonotonicInstant::now() < limit, "the lower one did not run alone")?;
        zx::nanosleep(super::soon(60))?;
    }
    low.process.kill()?;
    low.end()?;
    Ok(())
}
