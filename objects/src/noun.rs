//! The types of objects: the part of each beside the common one, and the lists through it.

use alloc::boxed::Box;

use abi::Status;

use crate::list::{Chain, Link};
use crate::object::{Id, Object};

/// A type of object.
pub trait Noun: Sized {
    /// `ZX_OBJ_TYPE_*`.
    const TYPE: u32;
    /// The object's type-specific part, if it is of this type.
    fn of(body: &Body) -> Option<&Self>;
    /// Like [`Noun::of`], mutable.
    fn of_mut(body: &mut Body) -> Option<&mut Self>;
    /// Whether the object is of this type.
    fn is(body: &Body) -> bool;
    /// Like [`Noun::of`], for an object that must be of this type.
    ///
    /// # Errors
    /// `INTERNAL`: it is not.
    fn own(body: &Body) -> Result<&Self, Status>;
    /// Like [`Noun::own`], mutable.
    ///
    /// # Errors
    /// As [`Noun::own`].
    fn own_mut(body: &mut Body) -> Result<&mut Self, Status>;
}

/// A noun whose objects come in pairs.
pub(crate) trait Peered: Noun {
    /// The peer, while it exists, and the peer's koid, which stays.
    fn peer_mut(&mut self) -> (&mut Option<Id<Self>>, &mut u64);
}

macro_rules! peered {
    ($($module:ident::$name:ident,)*) => {
        $(
            impl Peered for crate::$module::$name {
                fn peer_mut(&mut self) -> (&mut Option<Id<Self>>, &mut u64) {
                    (&mut self.peer, &mut self.peer_koid)
                }
            }
        )*
    };
}

peered! {
    channel::Channel,
    socket::Socket,
    fifo::Fifo,
    eventpair::EventPair,
    iob::Iob,
}

macro_rules! nouns {
    ($($name:ident $module:ident $code:ident,)*) => {
        /// The type-specific part of an object.
        #[allow(missing_docs)]
        pub enum Body {
            $($name(Box<crate::$module::$name>),)*
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
            impl Noun for crate::$module::$name {
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
    Job job ZX_OBJ_TYPE_JOB,
    Process process ZX_OBJ_TYPE_PROCESS,
    Thread thread ZX_OBJ_TYPE_THREAD,
    Vmo vmo ZX_OBJ_TYPE_VMO,
    Vmar vmar ZX_OBJ_TYPE_VMAR,
    Channel channel ZX_OBJ_TYPE_CHANNEL,
    Socket socket ZX_OBJ_TYPE_SOCKET,
    Fifo fifo ZX_OBJ_TYPE_FIFO,
    Event event ZX_OBJ_TYPE_EVENT,
    EventPair eventpair ZX_OBJ_TYPE_EVENTPAIR,
    Stream stream ZX_OBJ_TYPE_STREAM,
    Iob iob ZX_OBJ_TYPE_IOB,
    IobSharedRegion iob ZX_OBJ_TYPE_IOB_SHARED_REGION,
    Port port ZX_OBJ_TYPE_PORT,
    Timer timer ZX_OBJ_TYPE_TIMER,
    Clock clock ZX_OBJ_TYPE_CLOCK,
    Counter counter ZX_OBJ_TYPE_COUNTER,
    Debuglog debuglog ZX_OBJ_TYPE_DEBUGLOG,
    Resource resource ZX_OBJ_TYPE_RESOURCE,
    Endpoint endpoint HAFNON_OBJ_TYPE_ENDPOINT,
    Vproc vproc HAFNON_OBJ_TYPE_VPROC,
    Profile profile ZX_OBJ_TYPE_PROFILE,
    SuspendToken suspend_token ZX_OBJ_TYPE_SUSPEND_TOKEN,
    Exception exception ZX_OBJ_TYPE_EXCEPTION,
    Interrupt interrupt ZX_OBJ_TYPE_INTERRUPT,
    Pager pager ZX_OBJ_TYPE_PAGER,
    Msi msi ZX_OBJ_TYPE_MSI,
    Iommu iommu ZX_OBJ_TYPE_IOMMU,
    Bti bti ZX_OBJ_TYPE_BTI,
    Pmt bti ZX_OBJ_TYPE_PMT,
}

macro_rules! chains {
    ($($(#[$doc:meta])* $chain:ident = $module:ident::$noun:ident.$field:ident;)*) => {
        $(
            $(#[$doc])*
            pub struct $chain;

            impl Chain for $chain {
                type Entry = Object;
                fn link(object: &Object) -> Option<&Link> {
                    Some(&crate::$module::$noun::of(&object.body)?.$field)
                }
                fn link_mut(object: &mut Object) -> Option<&mut Link> {
                    Some(&mut crate::$module::$noun::of_mut(&mut object.body)?.$field)
                }
            }
        )*
    };
}

chains! {
    /// Jobs of a job.
    SubJobs = job::Job.siblings;
    /// Processes of a job.
    Processes = process::Process.siblings;
    /// Ended processes whose threads are still to be stopped.
    Stopping = process::Process.stopping;
    /// Pinned memory in the quarantine of a BTI.
    Quarantined = bti::Pmt.quarantine;
    /// Threads of a process.
    Threads = thread::Thread.siblings;
    /// Threads that wait for the same thing, in order of arrival.
    Waiters = thread::Thread.queue;
    /// Children of a VMO.
    VmoChildren = vmo::Vmo.siblings;
    /// Unlocked discardable VMOs.
    Unlocked = vmo::Vmo.unlocked;
    /// Clones that show pages of a pager-backed VMO where they have none of their own.
    VmoReaders = vmo::Vmo.reader;
}
