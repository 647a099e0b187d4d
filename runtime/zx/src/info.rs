//! What an object tells of itself: `zx_object_get_info` with the record of each topic.

use abi::{
    hafnon_info_job_usage_t, zx_info_bti_t, zx_info_handle_basic_t, zx_info_handle_count_t, zx_info_handle_extended_t,
    zx_info_iob_t, zx_info_job_t, zx_info_kmem_stats_t, zx_info_maps_t, zx_info_msi_t, zx_info_process_handle_stats_t,
    zx_info_process_t, zx_info_resource_t, zx_info_socket_t, zx_info_stream_t, zx_info_task_runtime_t,
    zx_info_task_stats_t, zx_info_thread_stats_t, zx_info_thread_t, zx_info_timer_t, zx_info_vmar_t, zx_info_vmo_t,
    zx_iob_region_info_t,
};

use crate::{AsHandleRef, Job, Process, Resource, Result, Socket, Stream, Thread, Vmar, Vmo, check, sys};

/// How many records a call wrote and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct InfoSize {
    /// Records written.
    pub actual: usize,
    /// Records there are.
    pub avail: usize,
}

/// Information on an object of any kind.
pub trait Info: AsHandleRef {
    /// Reads the records of a topic (`ZX_INFO_*`) as bytes.
    ///
    /// # Errors
    /// `WRONG_TYPE`, `ACCESS_DENIED`, `BUFFER_TOO_SMALL` when not one record fits, `NOT_SUPPORTED`.
    fn get_info(&self, topic: u32, buffer: &mut [u8]) -> Result<InfoSize> {
        let mut size = InfoSize::default();
        // SAFETY: the buffer is valid for its length; the sizes are one number's place each.
        check(unsafe {
            sys::zx_object_get_info(
                self.raw_handle(),
                topic,
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                &mut size.actual,
                &mut size.avail,
            )
        })?;
        Ok(size)
    }

    /// Reads the records of a topic.
    ///
    /// # Errors
    /// As [`Info::get_info`].
    fn get_info_records<T: Record>(&self, topic: u32, records: &mut [T]) -> Result<InfoSize> {
        let mut size = InfoSize::default();
        // SAFETY: the buffer is valid for its length, and any bytes are records; the sizes are one number's place each.
        check(unsafe {
            sys::zx_object_get_info(
                self.raw_handle(),
                topic,
                records.as_mut_ptr().cast(),
                size_of_val(records),
                &mut size.actual,
                &mut size.avail,
            )
        })?;
        Ok(size)
    }

    /// Reads a list of koids (`ZX_INFO_JOB_CHILDREN`, `ZX_INFO_JOB_PROCESSES`, `ZX_INFO_PROCESS_THREADS`).
    ///
    /// # Errors
    /// As [`Info::get_info`].
    fn get_info_koids(&self, topic: u32, koids: &mut [u64]) -> Result<InfoSize> {
        self.get_info_records(topic, koids)
    }

    /// Reads the record of a topic that has one.
    ///
    /// # Errors
    /// As [`Info::get_info`].
    fn info_record<T: Record>(&self, topic: u32) -> Result<T> {
        record(self, topic)
    }

    /// Kind, rights and koid.
    ///
    /// # Errors
    /// `BAD_HANDLE`.
    fn basic_info(&self) -> Result<zx_info_handle_basic_t> {
        record(self, abi::ZX_INFO_HANDLE_BASIC)
    }

    /// The object's koid.
    ///
    /// # Errors
    /// `BAD_HANDLE`.
    fn koid(&self) -> Result<u64> {
        Ok(self.basic_info()?.koid)
    }
}

impl<T: AsHandleRef> Info for T {}

/// A record of plain numbers, for which any bytes are a value.
///
/// # Safety
/// Only for such types.
pub unsafe trait Record: Copy {}

macro_rules! records {
    ($($name:ty),+ $(,)?) => {
        $(
            // SAFETY: plain numbers.
            unsafe impl Record for $name {}
        )+
    };
}

records! {
    u64,
    zx_info_bti_t,
    zx_info_handle_basic_t,
    zx_info_handle_count_t,
    zx_info_handle_extended_t,
    hafnon_info_job_usage_t,
    zx_info_job_t,
    zx_info_kmem_stats_t,
    zx_info_maps_t,
    zx_info_msi_t,
    zx_info_process_handle_stats_t,
    zx_info_process_t,
    zx_info_resource_t,
    zx_info_socket_t,
    zx_info_stream_t,
    zx_info_task_runtime_t,
    zx_info_task_stats_t,
    zx_info_thread_stats_t,
    zx_info_thread_t,
    zx_info_timer_t,
    zx_info_vmar_t,
    zx_info_iob_t,
    zx_iob_region_info_t,
    zx_info_vmo_t,
}

fn record<T: Record>(object: &(impl AsHandleRef + ?Sized), topic: u32) -> Result<T> {
    let mut record = core::mem::MaybeUninit::<T>::zeroed();
    let (mut actual, mut avail) = (0, 0);
    // SAFETY: the buffer is one record; the sizes are one number's place each.
    check(unsafe {
        sys::zx_object_get_info(
            object.raw_handle(),
            topic,
            record.as_mut_ptr().cast(),
            size_of::<T>(),
            &mut actual,
            &mut avail,
        )
    })?;
    // SAFETY: any bytes are a value of `T`; zeroed before.
    Ok(unsafe { record.assume_init() })
}

/// Information on a job, a process or a thread.
pub trait TaskInfo: AsHandleRef {
    /// How long its threads have run.
    ///
    /// # Errors
    /// `ACCESS_DENIED`, `NOT_SUPPORTED`.
    fn runtime(&self) -> Result<zx_info_task_runtime_t> {
        record(self, abi::ZX_INFO_TASK_RUNTIME)
    }
}

impl TaskInfo for Job {}
impl TaskInfo for Process {}
impl TaskInfo for Thread {}

impl Process {
    /// Return code, start time, flags.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn info(&self) -> Result<zx_info_process_t> {
        record(self, abi::ZX_INFO_PROCESS)
    }

    /// Memory in use.
    ///
    /// # Errors
    /// `ACCESS_DENIED`, `BAD_STATE` when it has ended.
    pub fn task_stats(&self) -> Result<zx_info_task_stats_t> {
        record(self, abi::ZX_INFO_TASK_STATS)
    }
}

impl Thread {
    /// For how long and where it ran.
    ///
    /// # Errors
    /// `ACCESS_DENIED`, `BAD_STATE` when it has ended.
    pub fn stats(&self) -> Result<zx_info_thread_stats_t> {
        record(self, abi::ZX_INFO_THREAD_STATS)
    }

    /// State and what it waits for.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn info(&self) -> Result<zx_info_thread_t> {
        record(self, abi::ZX_INFO_THREAD)
    }
}

impl Vmar {
    /// Base and length in bytes.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn info(&self) -> Result<zx_info_vmar_t> {
        record(self, abi::ZX_INFO_VMAR)
    }
}

impl Vmo {
    /// Size, name, flags.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn info(&self) -> Result<zx_info_vmo_t> {
        record(self, abi::ZX_INFO_VMO)
    }
}

impl Resource {
    /// `ZX_INFO_RESOURCE`.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn info(&self) -> Result<zx_info_resource_t> {
        self.info_record(abi::ZX_INFO_RESOURCE)
    }
}

impl Socket {
    /// Options and how much waits on either side.
    ///
    /// # Errors
    /// `ACCESS_DENIED`, `NOT_SUPPORTED`.
    pub fn info(&self) -> Result<zx_info_socket_t> {
        record(self, abi::ZX_INFO_SOCKET)
    }
}

impl Stream {
    /// Mode, position, bytes of content.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn info(&self) -> Result<zx_info_stream_t> {
        record(self, abi::ZX_INFO_STREAM)
    }
}

impl Job {
    /// Return code, whether it has ended, what becomes of it when memory runs out.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn info(&self) -> Result<zx_info_job_t> {
        record(self, abi::ZX_INFO_JOB)
    }

    /// What the job and all below it have, and may have.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn usage(&self) -> Result<hafnon_info_job_usage_t> {
        record(self, abi::HAFNON_INFO_JOB_USAGE)
    }

    /// Koids of the processes directly in the job.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn processes(&self, koids: &mut [u64]) -> Result<InfoSize> {
        self.get_info_koids(abi::ZX_INFO_JOB_PROCESSES, koids)
    }

    /// Koids of the jobs directly in the job.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn children(&self, koids: &mut [u64]) -> Result<InfoSize> {
        self.get_info_koids(abi::ZX_INFO_JOB_CHILDREN, koids)
    }
}
