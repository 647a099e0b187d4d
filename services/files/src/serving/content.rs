//! Requests for content: where there is no stream, and what streams cannot do.

use file_protocol::{Answer, Change, DATA_MAX, Error, FETCH_MAX, Kind, Result, flags};
use zx::{Handle, Rights, Status};

use super::open::Open;
use super::{Reply, ServedFileSystem, Service};
use crate::now;

/// Checks that a description allows this access.
fn check(open: &Open, flag: u32) -> Result<()> {
    match open.kind {
        Kind::Directory => Err(Error::IsDirectory),
        Kind::Socket => Err(Error::IsSocket),
        _ if open.flags.get() & flag == 0 => Err(Error::BadDescription),
        _ => Ok(()),
    }
}

/// The error for a client's buffer that could not be written.
fn of_buffer(status: Status) -> Error {
    if status == Status::NO_MEMORY { Error::Memory } else { Error::Invalid }
}

impl<F: ServedFileSystem, M: FnMut() -> Option<F>> Service<F, M> {
    pub(super) fn read(&mut self, open: &Open, at: Option<u64>, len: u32) -> Result<Reply> {
        check(open, flags::READ)?;
        let mut data = vec![0; DATA_MAX.min(len as usize)];
        let len = self.system(open)?.read(open.node, at.unwrap_or(open.position.get()), &mut data)?;
        data.truncate(len);
        if at.is_none() {
            open.position.set(open.position.get() + len as u64);
        }
        Ok(Reply::data(data))
    }

    /// `Buffer`.
    pub(super) fn set_buffer(&mut self, key: u64, buffer: Option<Handle>) -> Result<Reply> {
        let buffer = buffer.and_then(|buffer| service::memory(buffer, Rights::WRITE).ok()).ok_or(Error::Invalid)?;
        self.connections.get_mut(&key).ok_or(Error::Invalid)?.buffer = Some(buffer);
        Ok(Reply::new(Answer::Done))
    }

    /// `Fetch`: the position moves only if writing to the buffer succeeds.
    pub(super) fn fetch(&mut self, key: u64, open: &Open, at: Option<u64>, len: u32) -> Result<Reply> {
        check(open, flags::READ)?;
        let mut bytes = std::mem::take(&mut self.fetched);
        bytes.resize(FETCH_MAX, 0);
        let wanted = &mut bytes[..FETCH_MAX.min(len as usize)];
        let offset = at.unwrap_or(open.position.get());
        let read = self.system(open).and_then(|system| system.read(open.node, offset, wanted));
        let done = read.and_then(|len| {
            let buffer = self.connections.get(&key).and_then(|connection| connection.buffer.as_ref());
            buffer.ok_or(Error::Invalid)?.write(&wanted[..len], 0).map_err(of_buffer)?;
            Ok(len as u64)
        });
        self.fetched = bytes;
        if let (Ok(len), None) = (done, at) {
            open.position.set(offset + len);
        }
        done.map(|len| Reply::new(Answer::Count(len)))
    }

    pub(super) fn write(&mut self, open: &Open, at: Option<u64>, data: &[u8]) -> Result<Reply> {
        check(open, flags::WRITE)?;
        self.check_failures(open)?;
        self.changes(open, open.node);
        let system = self.system(open)?;
        let offset = match at {
            Some(offset) => offset,
            None if open.flags.get() & flags::APPEND != 0 => system.size(open.node)?,
            None => open.position.get(),
        };
        offset.checked_add(data.len() as u64).filter(|end| *end <= i64::MAX as u64).ok_or(Error::TooLarge)?;
        let len = if data.is_empty() { 0 } else { system.write(open.node, offset, data)? as u64 };
        if at.is_none() {
            open.position.set(offset + len);
        }
        Ok(Reply::new(Answer::Count(len)))
    }

    pub(super) fn seek(&mut self, open: &Open, whence: u8, offset: i64) -> Result<Reply> {
        let from = match (whence, open.kind) {
            (0, _) => 0,
            (1, _) => open.position.get(),
            (2, Kind::File) => self.system(open)?.size(open.node)?,
            _ => return Err(Error::Invalid),
        };
        let to = from.checked_add_signed(offset).filter(|to| *to <= i64::MAX as u64).ok_or(Error::Invalid)?;
        open.position.set(to);
        Ok(Reply::new(Answer::Count(to)))
    }

    /// A client reports writes through a stream now and then. A time in the future is not accepted.
    pub(super) fn touched(&mut self, open: &Open, at: i64) -> Result<Reply> {
        check(open, flags::WRITE)?;
        let change = Change { modified: Some(at.min(now())), ..Change::default() };
        self.system(open)?.change(open.node, &change)?;
        Ok(Reply::new(Answer::Done))
    }

    /// Makes all writes durable, and reports earlier losses.
    pub(super) fn sync_now(&mut self, open: &Open) -> Result<Reply> {
        let done = self.system(open)?.sync();
        self.check_failures(open)?;
        done.map(|()| Reply::new(Answer::Done))
    }

    pub(super) fn set_append(open: &Open, append: bool) -> Reply {
        let rest = open.flags.get() & !flags::APPEND;
        open.flags.set(if append { rest | flags::APPEND } else { rest });
        Reply::new(Answer::Done)
    }

    pub(super) fn memory(&mut self, open: &Open, write: bool) -> Result<Reply> {
        check(open, flags::READ)?;
        if write {
            check(open, flags::WRITE)?;
        }
        let vmo = self.system(open)?.memory(open.node, write)?;
        Ok(Reply { answer: Answer::Memory, data: Vec::new(), handles: vec![vmo.into_handle()] })
    }
}
