//! The types of objects: what each has beside what all have, and the lists that go through it.

use alloc::boxed::Box;

use abi::Status;

use crate::containers::list::{Chain, Link};
use crate::core::object::{Id, Object};

/// A type of object.
pub trait Noun: Sized {
    /// `ZX_OBJ_TYPE_*`.
    const TYPE: u32;
    /// The object's own part, if it is of this type.
    fn of(body: &Body) -> Option<&Self>;
    /// The same, to change it.
    fn of_mut(body: &mut Body) -> Option<&mut Self>;
    /// Whether the object is of this type.
    fn is(body: &Body) -> bool;
    /// As [`Noun::of`], for an object that must be of this type.
    ///
    /// # Errors
    /// `INTERNAL`: it is not.
    fn own(body: &Body) -> Result<&Self, Status>;
    /// The same, to change it.
    ///
    /// # Errors
    /// As [`Noun::own`].
    fn own_mut(body: &mut Body) -> Result<&mut Self, Status>;
}

/// A noun whose objects come in pairs.
pub(crate) trait Peered: Noun {
    /// The other end, as long as it is there, and its number for good.
    fn peer_mut(&mut self) -> (&mut Option<Id<Self>>, &mut u64);
}

macro_rules! peered {
    ($($family:ident::$module:ident::$name:ident,)*) => {
        $(
            impl Peered for crate::$family::$module::$name {
                fn peer_mut(&mut self) -> (&mut Option<Id<Self>>, &mut u64) {
                    (&mut self.peer, &mut self.peer_koid)
                }
            }
        )*
    };
}

peered! {
    ipc::channel::Channel,
    ipc::socket::Socket,
    ipc::fifo::Fifo,
    ipc::eventpair::EventPair,
    ipc::iob::Iob,
}

macro_rules! nouns {
    ($($name:ident $family:ident::$module:ident $code:ident,)*) => {
        /// The part of an object that depends on its type.
        #[allow(missing_docs)]
        pub enum Body {
            $($name(Box<crate::$family::$module::$name>),)*
        }

        impl Body {
            /// `ZX_OBJ_TYPE_*`.
            pub fn object_type(&self) -> u32 {
                match self {
                    $(Body::$name(_) => abi::$code,)*
                }
            }
        }

        $(
            impl Noun for crate::$family::$module::$name {
                const TYPE: u32 = abi::$code;
                #[inline]
                fn of(body: &Body) -> Option<&Self> {
                    match body {
                        Body::$name(x) => Some(x),
                        _ => None,
                    }
                }
                #[inline]
                fn of_mut(body: &mut Body) -> Option<&mut Self> {
                    match body {
                        Body::$name(x) => Some(x),
                        _ => None,
                    }
                }
                #[inline]
                fn is(body: &Body) -> bool {
                    matches!(body, Body::$name(_))
                }
                #[inline]
                fn own(body: &Body) -> Result<&Self, Status> {
                    match body {
                        Body::$name(x) => Ok(x),
                        _ => Err(Status::INTERNAL),
                    }
                }
                #[inline]
                fn own_mut(body: &mut Body) -> Result<&mut Self, Status> {
                    match body {
                        Body::$name(x) => Ok(x),
                        _ => Err(Status::INTERNAL),
                    }
                }
            }
        )*
    };
}

nouns! {
    Job task::job ZX_OBJ_TYPE_JOB,
    Process task::process ZX_OBJ_TYPE_PROCESS,
    Thread task::thread ZX_OBJ_TYPE_THREAD,
    Vmo memory::vmo ZX_OBJ_TYPE_VMO,
    Vmar memory::vmar ZX_OBJ_TYPE_VMAR,
    Channel ipc::channel ZX_OBJ_TYPE_CHANNEL,
    Socket ipc::socket ZX_OBJ_TYPE_SOCKET,
    Fifo ipc::fifo ZX_OBJ_TYPE_FIFO,
    Event core::event ZX_OBJ_TYPE_EVENT,
    EventPair ipc::eventpair ZX_OBJ_TYPE_EVENTPAIR,
    Stream ipc::stream ZX_OBJ_TYPE_STREAM,
    Iob ipc::iob ZX_OBJ_TYPE_IOB,
    IobSharedRegion ipc::iob ZX_OBJ_TYPE_IOB_SHARED_REGION,
    Port core::port ZX_OBJ_TYPE_PORT,
    Timer time::timer ZX_OBJ_TYPE_TIMER,
    Clock time::clock ZX_OBJ_TYPE_CLOCK,
    Counter core::counter ZX_OBJ_TYPE_COUNTER,
    Debuglog core::debuglog ZX_OBJ_TYPE_DEBUGLOG,
    Resource device::resource ZX_OBJ_TYPE_RESOURCE,
    Endpoint guest::endpoint HAFNON_OBJ_TYPE_ENDPOINT,
    Vproc guest::vproc HAFNON_OBJ_TYPE_VPROC,
    Profile task::profile ZX_OBJ_TYPE_PROFILE,
    SuspendToken task::suspend_token ZX_OBJ_TYPE_SUSPEND_TOKEN,
    Exception task::exception ZX_OBJ_TYPE_EXCEPTION,
    Interrupt device::interrupt ZX_OBJ_TYPE_INTERRUPT,
    Pager memory::pager ZX_OBJ_TYPE_PAGER,
    Msi device::msi ZX_OBJ_TYPE_MSI,
    Iommu device::iommu ZX_OBJ_TYPE_IOMMU,
    Bti device::bti ZX_OBJ_TYPE_BTI,
    Pmt device::bti ZX_OBJ_TYPE_PMT,
}

macro_rules! chains {
    ($($(#[$doc:meta])* $chain:ident = $family:ident::$module:ident::$noun:ident.$field:ident;)*) => {
        $(
            $(#[$doc])*
            pub struct $chain;

            impl Chain for $chain {
                type Entry = Object;
                fn link(object: &Object) -> Option<&Link> {
                    Some(&crate::$family::$module::$noun::of(&object.body)?.$field)
                }
                fn link_mut(object: &mut Object) -> Option<&mut Link> {
                    Some(&mut crate::$family::$module::$noun::of_mut(&mut object.body)?.$field)
                }
            }
        )*
    };
}

chains! {
    /// Jobs of a job.
    SubJobs = task::job::Job.siblings;
    /// Processes of a job.
    Processes = task::process::Process.siblings;
    /// Processes that have ended, whose threads are still to be stopped.
    Stopping = task::process::Process.stopping;
    /// Pinned memory in the quarantine of a bus transaction initiator.
    Quarantined = device::bti::Pmt.quarantine;
    /// Threads of a process.
    Threads = task::thread::Thread.siblings;
    /// Threads that wait for the same thing in the order in which they came.
    Waiters = task::thread::Thread.queue;
    /// Children of a VMO.
    VmoChildren = memory::vmo::Vmo.siblings;
    /// Discardable VMOs that nobody has locked.
    Unlocked = memory::vmo::Vmo.unlocked;
    /// Clones that show pages of a VMO with a pager where they have none of their own.
    VmoReaders = memory::vmo::Vmo.reader;
}
