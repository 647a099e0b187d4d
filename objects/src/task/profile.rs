//! Profiles: scheduling parameters that can be assigned to any number of threads.
//!
//! In the machine each thread has one priority; the highest ready one runs, and equal ones run round-robin. Zircon's 32
//! priorities map to 32 of the machine's in the same order. A thread with a deadline has a priority above all of them:
//! that is the best approximation on a machine without budgets. The requested deadline is checked and stored, but
//! neither guaranteed nor enforced.

use alloc::boxed::Box;

use abi::{
    Signals, Status, ZX_PRIORITY_DEFAULT, ZX_PRIORITY_HIGH, ZX_PRIORITY_HIGHEST, ZX_PRIORITY_LOWEST,
    ZX_PROFILE_INFO_FLAG_CPU_MASK, ZX_PROFILE_INFO_FLAG_DEADLINE, ZX_PROFILE_INFO_FLAG_MEMORY_PRIORITY,
    ZX_PROFILE_INFO_FLAG_NO_INHERIT, ZX_PROFILE_INFO_FLAG_PRIORITY, zx_profile_info_t,
};

use crate::core::noun::{Noun, ObjectOps};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::{Machine, Priority};
use crate::task::thread::Thread;

/// The content of a profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Profile {
    /// For threads.
    Thread {
        /// The priority; none if the profile only sets processors.
        priority: Option<Priority>,
        /// The processor mask, if the profile sets one: bit n is processor n. It is stored and reported, but has no
        /// effect, as there is only one processor.
        processors: Option<u64>,
    },
    /// For VMARs: how hard to try to keep their memory, which this kernel never reclaims.
    Memory,
}

impl Noun for Profile {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_PROFILE;
}

impl ObjectOps for Profile {}

impl Profile {
    /// Checks a program's parameters.
    ///
    /// # Errors
    /// `INVALID_ARGS`.
    pub fn new(info: &zx_profile_info_t) -> Result<Profile, Status> {
        let known = ZX_PROFILE_INFO_FLAG_PRIORITY
            | ZX_PROFILE_INFO_FLAG_CPU_MASK
            | ZX_PROFILE_INFO_FLAG_DEADLINE
            | ZX_PROFILE_INFO_FLAG_NO_INHERIT
            | ZX_PROFILE_INFO_FLAG_MEMORY_PRIORITY;
        let has = |flag| info.flags & flag != 0;
        let kinds = ZX_PROFILE_INFO_FLAG_PRIORITY | ZX_PROFILE_INFO_FLAG_CPU_MASK | ZX_PROFILE_INFO_FLAG_DEADLINE;
        let memory = has(ZX_PROFILE_INFO_FLAG_MEMORY_PRIORITY);
        let deadline = has(ZX_PROFILE_INFO_FLAG_DEADLINE);
        if info.flags & !known != 0 || !memory && !has(kinds) {
            return Err(Status::INVALID_ARGS);
        }
        let [first, second, third] = info.parameters;
        // The first four bytes of the union.
        let wanted = first as u32 as i32;
        if memory {
            let alone = info.flags == ZX_PROFILE_INFO_FLAG_MEMORY_PRIORITY;
            let valid = wanted == ZX_PRIORITY_DEFAULT || wanted == ZX_PRIORITY_HIGH;
            return if alone && valid { Ok(Profile::Memory) } else { Err(Status::INVALID_ARGS) };
        }
        if deadline && (has(ZX_PROFILE_INFO_FLAG_PRIORITY) || has(ZX_PROFILE_INFO_FLAG_NO_INHERIT)) {
            return Err(Status::INVALID_ARGS);
        }
        let priority = if deadline {
            let (capacity, deadline, period) = (first as i64, second as i64, third as i64);
            if capacity <= 0 || deadline < capacity || period < deadline {
                return Err(Status::INVALID_ARGS);
            }
            Some(Priority::DEADLINE)
        } else if has(ZX_PROFILE_INFO_FLAG_PRIORITY) {
            if !(ZX_PRIORITY_LOWEST..=ZX_PRIORITY_HIGHEST).contains(&wanted) {
                return Err(Status::INVALID_ARGS);
            }
            Some(Priority(wanted as u8))
        } else {
            None
        };
        // As in Zircon, whose masks also have one word, the other words are ignored.
        let processors = has(ZX_PROFILE_INFO_FLAG_CPU_MASK).then_some(info.cpu_affinity_mask.mask[0]);
        Ok(Profile::Thread { priority, processors })
    }
}

impl<M: Machine> Kernel<M> {
    /// `profile_create`.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn profile_create(&mut self, profile: Profile) -> Result<Id<Profile>, Status> {
        self.create(Signals::NONE, Box::new(profile))
    }

    /// `object_set_profile` for a thread, started or not.
    ///
    /// # Errors
    /// `WRONG_TYPE`: the profile is not for threads. `BAD_STATE`: the thread has ended. `NOT_SUPPORTED`: it is a
    /// component's.
    pub fn thread_set_profile(&mut self, id: Id<Thread>, profile: Id<Profile>) -> Result<(), Status> {
        let Profile::Thread { priority, processors } = *self.objects.get(profile)? else {
            return Err(Status::WRONG_TYPE);
        };
        self.no_component_thread(id)?;
        let thread = self.objects.get_mut(id)?;
        if thread.has_ended() {
            return Err(Status::BAD_STATE);
        }
        if let Some(processors) = processors {
            thread.processors = processors;
        }
        let Some(priority) = priority else { return Ok(()) };
        thread.priority = priority;
        if let Some(machine) = thread.machine {
            self.machine.thread_set_priority(machine, priority);
            self.restricted_priority(id);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::containers::name::Name;
    use crate::fake::FakeMachine;
    use crate::machine::Registers;

    fn info(flags: u32, parameters: [u64; 3]) -> zx_profile_info_t {
        zx_profile_info_t { flags, parameters, ..Default::default() }
    }

    #[test]
    fn what_is_valid() {
        let (priority, mask) = (ZX_PROFILE_INFO_FLAG_PRIORITY, ZX_PROFILE_INFO_FLAG_CPU_MASK);
        let (deadline, memory) = (ZX_PROFILE_INFO_FLAG_DEADLINE, ZX_PROFILE_INFO_FLAG_MEMORY_PRIORITY);
        let no_inherit = ZX_PROFILE_INFO_FLAG_NO_INHERIT;
        let thread = |priority| Ok(Profile::Thread { priority, processors: None });
        let masked = |priority, processors| Ok(Profile::Thread { priority, processors: Some(processors) });
        let with_mask = |mut info: zx_profile_info_t, words: [u64; 2]| {
            info.cpu_affinity_mask.mask[..2].copy_from_slice(&words);
            info
        };
        let bad = Err(Status::INVALID_ARGS);
        let cases = [
            (info(0, [0; 3]), bad),
            (info(no_inherit, [0; 3]), bad),
            (info(1 << 5 | priority, [0; 3]), bad),
            (info(mask, [99, 0, 0]), masked(None, 0)),
            (info(mask | no_inherit, [0; 3]), masked(None, 0)),
            (with_mask(info(mask, [0; 3]), [6, 1]), masked(None, 6)),
            // Without the flag the mask is ignored.
            (with_mask(info(priority, [0; 3]), [6, 0]), thread(Some(Priority(0)))),
            (info(priority, [0; 3]), thread(Some(Priority(0)))),
            (info(priority | mask | no_inherit, [31, 0, 0]), masked(Some(Priority(31)), 0)),
            // The bytes after the priority are ignored.
            (info(priority, [0xffff_ffff_0000_0010, 7, 7]), thread(Some(Priority(16)))),
            (info(priority, [32, 0, 0]), bad),
            (info(priority, [0xffff_ffff, 0, 0]), bad),
            (info(deadline, [1, 1, 1]), thread(Some(Priority::DEADLINE))),
            (info(deadline | mask, [1, 2, 3]), masked(Some(Priority::DEADLINE), 0)),
            (info(deadline, [0, 1, 1]), bad),
            (info(deadline, [2, 1, 3]), bad),
            (info(deadline, [1, 3, 2]), bad),
            (info(deadline, [u64::MAX, 3, 3]), bad),
            (info(deadline | no_inherit, [1, 1, 1]), bad),
            (info(deadline | priority, [1, 1, 1]), bad),
            (info(memory, [16, 0, 0]), Ok(Profile::Memory)),
            (info(memory, [24, 0, 0]), Ok(Profile::Memory)),
            (info(memory, [0, 0, 0]), bad),
            (info(memory | priority, [16, 0, 0]), bad),
            (info(memory | mask, [16, 0, 0]), bad),
            (info(memory | no_inherit, [16, 0, 0]), bad),
        ];
        for (info, expected) in cases {
            assert_eq!(Profile::new(&info), expected, "{info:?}");
        }
    }

    #[test]
    fn a_thread_keeps_its_priority_from_before_its_start() {
        let mut kernel = Kernel::new(FakeMachine::new(10)).unwrap();
        let job = kernel.root_job().unwrap();
        let (process, _) = kernel.process_create(job, Name::default()).unwrap();
        kernel.process_begin(process, None).unwrap();
        let thread = kernel.thread_create(process, Name::default()).unwrap();
        let profile = |kernel: &mut Kernel<FakeMachine>, n| {
            kernel.profile_create(Profile::Thread { priority: Some(Priority(n)), processors: None }).unwrap()
        };
        let (low, high) = (profile(&mut kernel, 3), profile(&mut kernel, 30));
        kernel.thread_set_profile(thread, low).unwrap();
        kernel.thread_start(thread, &Registers::default()).unwrap();
        let priority = |kernel: &Kernel<FakeMachine>| kernel.machine.threads.values().next().unwrap().priority;
        assert_eq!(priority(&kernel), Priority(3));
        kernel.thread_set_profile(thread, high).unwrap();
        assert_eq!(priority(&kernel), Priority(30));
        let mask = Profile::Thread { priority: None, processors: Some(2) };
        let others = [kernel.profile_create(Profile::Memory), kernel.profile_create(mask)];
        let [memory, mask] = others.map(Result::unwrap);
        assert_eq!(kernel.thread_set_profile(thread, memory), Err(Status::WRONG_TYPE));
        assert_eq!(kernel.objects.get(thread).unwrap().processors(), 1);
        assert_eq!(kernel.thread_set_profile(thread, mask), Ok(()));
        assert_eq!((priority(&kernel), kernel.objects.get(thread).unwrap().processors()), (Priority(30), 2));
        kernel.thread_set_profile(thread, high).unwrap();
        assert_eq!(kernel.objects.get(thread).unwrap().processors(), 2);
        kernel.process_kill(process, 0);
        assert_eq!(kernel.thread_set_profile(thread, low), Err(Status::BAD_STATE));
        assert_eq!(kernel.objects.get(thread).unwrap().processors(), 0);
    }
}
