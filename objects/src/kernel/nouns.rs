//! The list of all types of objects.

use alloc::boxed::Box;

use abi::Status;

use crate::core::noun::Noun;

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
