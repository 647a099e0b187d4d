//! Information about objects: `zx_object_get_info` with the record of each topic.

use abi::{
    hafnon_info_job_usage_t, zx_info_bti_t, zx_info_cpu_stats_t, zx_info_handle_basic_t, zx_info_handle_count_t,
    zx_info_handle_extended_t, zx_info_iob_t, zx_info_job_t, zx_info_kmem_stats_t, zx_info_maps_t, zx_info_msi_t,
    zx_info_process_handle_stats_t, zx_info_process_t, zx_info_resource_t, zx_info_socket_t, zx_info_stream_t,
    zx_info_task_runtime_t, zx_info_task_stats_t, zx_info_thread_stats_t, zx_info_thread_t, zx_info_timer_t,
    zx_info_vmar_t, zx_info_vmo_t, zx_iob_region_info_t,
};

use crate::{AsHandleRef, Job, Process, Resource, Result, Socket, Stream, Thread, Vmar, Vmo, check, sys};

/// Number of records written and number of records available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct InfoSize {
    /// Records written.
    pub actual: usize,
    /// Records available.
    pub avail: usize,
}

/// Information about an object of any type.
pub trait Info: AsHandleRef {
    /// Reads the records of a topic (`ZX_INFO_*`) as bytes.
    ///
    /// # Errors
    /// `WRONG_TYPE`, `ACCESS_DENIED`, `NOT_SUPPORTED`; `BUFFER_TOO_SMALL`: not even one record fits.
    fn get_info(&self, topic: u32, buffer: &mut [u8]) -> Result<InfoSize> {
        let mut size = InfoSize::default();
        // SAFETY: the buffer is valid for its length; the sizes have room for one number each.
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
        // SAFETY: the buffer is valid for its length, and any bytes are valid records; the sizes have room for one
        // number each.
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

    /// Reads the record of a topic that has a single record.
    ///
    /// # Errors
    /// As [`Info::get_info`].
    fn info_record<T: Record>(&self, topic: u32) -> Result<T> {
        record(self, topic)
    }

    /// Type, rights and koid.
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

/// A record of plain numbers, for which any bytes are a valid value.
///
/// # Safety
/// The type must be such a record.
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
    zx_info_cpu_stats_t,
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
    // SAFETY: the buffer has room for one record; the sizes have room for one number each.
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
    // SAFETY: any bytes are a valid `T`; it was zeroed before.
    Ok(unsafe { record.assume_init() })
}

/// Information about a job, a process or a thread.
pub trait TaskInfo: AsHandleRef {
    /// Run time of its threads.
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
    /// Return code, start time and flags.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn info(&self) -> Result<zx_info_process_t> {
        record(self, abi::ZX_INFO_PROCESS)
    }

    /// Memory in use.
    ///
    /// # Errors
    /// `ACCESS_DENIED`. `BAD_STATE`: the process has ended.
    pub fn task_stats(&self) -> Result<zx_info_task_stats_t> {
        record(self, abi::ZX_INFO_TASK_STATS)
    }
}

impl Thread {
    /// Run time, and the processor that it ran on last.
    ///
    /// # Errors
    /// `ACCESS_DENIED`. `BAD_STATE`: the thread has ended.
    pub fn stats(&self) -> Result<zx_info_thread_stats_t> {
        record(self, abi::ZX_INFO_THREAD_STATS)
    }

    /// Its state, and the reason why it is blocked.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn info(&self) -> Result<zx_info_thread_t> {
        record(self, abi::ZX_INFO_THREAD)
    }
}

impl Vmar {
    /// Base address, and length in bytes.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn info(&self) -> Result<zx_info_vmar_t> {
        record(self, abi::ZX_INFO_VMAR)
    }
}

impl Vmo {
    /// Size, name and flags.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn info(&self) -> Result<zx_info_vmo_t> {
        record(self, abi::ZX_INFO_VMO)
    }
}

impl Resource {
    /// Kind, flags and range of the resource (`ZX_INFO_RESOURCE`).
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn info(&self) -> Result<zx_info_resource_t> {
        self.info_record(abi::ZX_INFO_RESOURCE)
    }
}

impl Socket {
    /// Options, and number of bytes waiting in both directions.
    ///
    /// # Errors
    /// `ACCESS_DENIED`, `NOT_SUPPORTED`.
    pub fn info(&self) -> Result<zx_info_socket_t> {
        record(self, abi::ZX_INFO_SOCKET)
    }
}

impl Stream {
    /// Mode, position, and length of the content in bytes.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn info(&self) -> Result<zx_info_stream_t> {
        record(self, abi::ZX_INFO_STREAM)
    }
}

impl Job {
    /// Return code, whether it has ended, and whether it may be killed when memory runs out.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn info(&self) -> Result<zx_info_job_t> {
        record(self, abi::ZX_INFO_JOB)
    }

    /// Usage and quotas of the job and everything below it.
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
