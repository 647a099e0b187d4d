//! Adding a noun takes its own file and a line in the list of nouns: this one exists only for tests, and everything
//! that the kernel does to objects of any type reaches it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use abi::{Rights, Signals, Status};

use super::World;
use crate::Kernel;
use crate::containers::name::Name;
use crate::core::account::QueueCharge;
use crate::core::event::Event;
use crate::core::handle::Handle;
use crate::core::noun::{Noun, ObjectOps, Peer, Variant};
use crate::core::object::{DrainStep, Id, ObjectId, Users};
use crate::machine::Machine;
use crate::time::deadline::DeadlineKind;

/// A group of events. It holds references to them until it is destroyed, and releases one per step.
pub(crate) struct Group {
    name: Name,
    events: Vec<Id<Event>>,
    /// The object that is signalled when something happens to the group.
    log: Id<Event>,
    due: u32,
}

/// The signals by which a test sees what happened to a group.
const CLOSED: Signals = Signals::USER_0;
const LEFT: Signals = Signals::USER_1;
const DESTROYED: Signals = Signals::USER_2;
const REACHED: Signals = Signals::USER_3;

impl Noun for Group {
    // No type of Zircon's has this number.
    const TYPE: u32 = 1000;
    const BYTES: u64 = 4321;
    const USER_SIGNALS: Signals = Signals::USER_7;

    fn name(&self) -> Option<Name> {
        Some(self.name)
    }

    fn peer(&self) -> Option<Peer> {
        Peer::new(Some(self.log), 77)
    }

    fn parent(&self) -> Option<ObjectId> {
        Some(self.log.object())
    }

    fn is_child(&self) -> bool {
        !self.events.is_empty()
    }
}

impl ObjectOps for Group {
    fn rename<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>, name: Name) -> Result<(), Status> {
        kernel.objects.get_mut(id)?.name = name;
        Ok(())
    }

    fn last_handle_closed<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>) {
        log(kernel, id, CLOSED);
    }

    fn needs_drain(&self) -> bool {
        !self.events.is_empty()
    }

    fn drain<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>, users: Users) -> DrainStep {
        assert!(!users.any);
        match kernel.objects.get_mut(id).unwrap().events.pop() {
            Some(event) => {
                kernel.drop_ref(event.object());
                DrainStep::More
            }
            None => DrainStep::Nothing,
        }
    }

    fn leave_lists<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>) {
        log(kernel, id, LEFT);
    }

    fn queue_charge(&self) -> Option<QueueCharge> {
        Some(QueueCharge::default())
    }

    fn destroyed<M: Machine>(self: Box<Self>, kernel: &mut Kernel<M>, _: Id<Self>) {
        assert!(self.events.is_empty(), "it is drained before");
        kernel.signal(self.log.object(), Signals::NONE, DESTROYED);
        kernel.drop_ref(self.log.object());
    }

    fn has_deadline(&self, number: u32) -> bool {
        self.due == number
    }

    fn deadline_reached<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>) {
        log(kernel, id, REACHED);
    }
}

fn log<M: Machine>(kernel: &mut Kernel<M>, id: Id<Group>, what: Signals) {
    let log = kernel.objects.get(id).unwrap().log;
    kernel.signal(log.object(), Signals::NONE, what);
}

/// Creates a group of three events, and an event with a handle that logs.
fn group(world: &mut World) -> (Id<Group>, Id<Event>) {
    let kernel = &mut world.kernel;
    let log = kernel.event_create().unwrap();
    let events: Vec<_> = (0..3).map(|_| kernel.event_create().unwrap()).collect();
    events.iter().chain([&log]).for_each(|event| kernel.add_ref(event.object()));
    let group = Group { name: Name::new(b"group"), events, log, due: 5 };
    let group = kernel.create(Signals::NONE, Box::new(group)).unwrap();
    world.give(log);
    (group, log)
}

#[test]
fn its_properties_are_found() {
    let mut world = World::new(1);
    let (group, log) = group(&mut world);
    let kernel = &mut world.kernel;
    kernel.set_name(group.object(), Name::new(b"other")).unwrap();
    let body = &kernel.objects.any(group.object()).unwrap().body;
    assert_eq!((body.object_type(), body.user_signals()), (1000, Signals::USER_7));
    assert_eq!(body.name(), Some(Name::new(b"other")));
    assert_eq!(kernel.peer(group.object()), Ok(Some(log.object())));
    assert_eq!(kernel.related_koid(group.object()), 77);
    assert!(kernel.is_child(group.object(), log.object()));
    assert!(Group::of(body).is_some() && Event::of(body).is_none());
    assert_eq!(kernel.objects.typed::<Event>(group.object()), Err(Status::WRONG_TYPE));
    assert_eq!(kernel.task(group.object()), Err(Status::WRONG_TYPE));
}

#[test]
fn its_life_ends_in_steps() {
    let mut world = World::new(1);
    let (group, log) = group(&mut world);
    let count = world.kernel.objects.len();
    let job = world.kernel.root_job().unwrap();
    let before = world.kernel.job_memory(job).unwrap().0;
    let value = world.kernel.give_new(world.process, group, Rights::NONE).unwrap();
    assert!(world.kernel.job_memory(job).unwrap().0 >= before + Group::BYTES);
    let handle: Handle = world.kernel.take(world.process, value).unwrap();
    world.kernel.close(handle);
    world.kernel.reap();
    assert_eq!(world.kernel.signals(log.object()), CLOSED | LEFT | DESTROYED);
    assert_eq!(world.kernel.objects.len(), count - 4, "the group and its events are destroyed");
    assert_eq!(world.kernel.job_memory(job).unwrap().0, before);
}

#[test]
fn its_deadline_is_reached() {
    let mut world = World::new(1);
    let (group, log) = group(&mut world);
    let kernel = &mut world.kernel;
    for number in [4, 5] {
        kernel.arm(DeadlineKind::Timer, 1, group.object(), number).unwrap();
    }
    world.pass(2);
    assert_eq!(world.kernel.signals(log.object()), REACHED);
}
