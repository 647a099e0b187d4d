//! The list of all types of objects.

use alloc::boxed::Box;

use abi::Status;

use crate::core::noun::{Noun, Variant};

macro_rules! nouns {
    ($($name:ident $family:ident::$module:ident,)*) => {
        /// The part of an object that depends on its type.
        #[allow(missing_docs)]
        pub enum Body {
            $($name(Box<crate::$family::$module::$name>),)*
        }

        impl Body {
            /// `ZX_OBJ_TYPE_*`.
            pub fn object_type(&self) -> u32 {
                match self {
                    $(Body::$name(_) => <crate::$family::$module::$name as Noun>::TYPE,)*
                }
            }
        }

        $(
            impl Variant for crate::$family::$module::$name {
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
    Job task::job,
    Process task::process,
    Thread task::thread,
    Vmo memory::vmo,
    Vmar memory::vmar,
    Channel ipc::channel,
    Socket ipc::socket,
    Fifo ipc::fifo,
    Event core::event,
    EventPair ipc::eventpair,
    Stream ipc::stream,
    Iob ipc::iob,
    IobSharedRegion ipc::iob,
    Port core::port,
    Timer time::timer,
    Clock time::clock,
    Counter core::counter,
    Debuglog core::debuglog,
    Resource device::resource,
    Endpoint task::endpoint,
    Vproc guest::vproc,
    Profile task::profile,
    SuspendToken task::suspend_token,
    Exception task::exception,
    Interrupt device::interrupt,
    Pager memory::pager,
    Msi device::msi,
    Iommu device::iommu,
    Bti device::bti,
    Pmt device::bti,
}
