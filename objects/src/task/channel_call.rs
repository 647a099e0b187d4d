//! Delivery of messages to threads: a thread in `channel_call` waits for its answer, and a message is written into a
//! thread's memory and its process's handle table. The steps are those of [`crate::ipc::channel`].

use alloc::boxed::Box;
use alloc::vec::Vec;

use abi::Status;

use crate::containers::slab::Key;
use crate::core::continuation::PAGE_WAIT;
use crate::core::handle::Handle;
use crate::core::object::Id;
use crate::core::wait::Waiting;
use crate::ipc::channel::{CallBuffers, Channel, Message};
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::memory::usermem::UserDestination;
use crate::task::blocking::Wait;
use crate::task::page_wait::AfterPageWait;
use crate::task::process::Process;
use crate::task::thread::Thread;

/// Size of a handle in a reader's array: a `zx_handle_info_t` or a bare value.
fn handle_size(etc: bool) -> usize {
    if etc { 16 } else { 4 }
}

impl<M: Machine> Kernel<M> {
    /// `channel_call`: steps 1 and 2. The message's first four bytes are replaced by the transaction number.
    ///
    /// # Errors
    /// Those of [`Kernel::channel_write`]; the message's handles are closed.
    pub fn channel_call(
        &mut self,
        end: Id<Channel>,
        thread: Id<Thread>,
        mut message: Message,
        deadline: i64,
        buffers: CallBuffers,
    ) -> Result<Waiting, Status> {
        let channel = self.objects.get_mut(end)?;
        // Numbers that the kernel chooses have the top bit set; those that callers may use by hand do not.
        let txid = loop {
            channel.next_txid = channel.next_txid.wrapping_add(1);
            let txid = channel.next_txid | 0x8000_0000;
            if !channel.callers.contains_key(&txid) {
                break txid;
            }
        };
        if let Some(bytes) = message.data.first_chunk_mut::<4>() {
            *bytes = txid.to_le_bytes();
        }
        channel.callers.insert(txid, thread.object());
        if let Err(status) = self.channel_write(end, message) {
            self.channel_forget_caller(end, txid);
            return Err(status);
        }
        let blocked = self.block(thread, Wait::Call { channel: end, txid, buffers }, deadline);
        if blocked != Ok(Waiting::Blocked) {
            self.channel_forget_caller(end, txid);
        }
        blocked
    }

    pub(crate) fn channel_forget_caller(&mut self, end: Id<Channel>, txid: u32) {
        if let Ok(channel) = self.objects.get_mut(end) {
            channel.callers.remove(&txid);
        }
    }

    /// Step 3: delivers the answer to the thread that waits for it, whose number was removed before.
    pub(crate) fn channel_answered(&mut self, id: Id<Thread>, message: Message) {
        if !message.handles.is_empty() {
            self.channel_note_within(&message.handles, None);
        }
        let Ok(thread) = self.objects.get_mut(id) else { return self.drop_message(message) };
        let Wait::Call { buffers, .. } = thread.wait else { return self.drop_message(message) };
        let (process, aspace, machine) = (thread.holder, thread.aspace, thread.at_hand());
        if thread.over() {
            self.disarm();
        }
        // Usually there are only bytes, and they fit.
        if let Some(aspace) = aspace
            && message.handles.is_empty()
            && self.check_delivery(aspace, process, &message, buffers).is_ok()
        {
            self.buffers.give(message.data);
            return self.wake_machine(id, machine, i64::from(Status::OK.0));
        }
        self.channel_deliver(id, message, buffers);
    }

    /// The same for a thread whose wait is over. It may have to wait for the destination memory.
    pub(crate) fn channel_deliver(&mut self, thread: Id<Thread>, message: Message, buffers: CallBuffers) {
        match self.deliver(thread, message, buffers) {
            Ok(()) => self.wake(thread, Status::OK),
            Err((PAGE_WAIT, Some(message))) => {
                self.page_wait_or_wake(thread, AfterPageWait::Answer(Box::new((message, buffers))));
            }
            Err((status, message)) => {
                if let Some(message) = message {
                    self.drop_message(message);
                }
                self.wake(thread, status);
            }
        }
    }

    /// Writes a message into the memory and the handle table of the thread that asked for it.
    ///
    /// # Errors
    /// Those of [`Kernel::check_delivery`], with the message.
    fn deliver(
        &mut self,
        thread: Id<Thread>,
        message: Message,
        buffers: CallBuffers,
    ) -> Result<(), (Status, Option<Message>)> {
        let found = self.objects.get(thread).map(|thread| thread.holder);
        let found = found.and_then(|process| Ok((process, self.aspace_of_thread(thread)?)));
        let checked = found.and_then(|(process, aspace)| {
            Ok(((process, aspace), self.check_delivery(aspace, process, &message, buffers)?))
        });
        let (receiver, to) = match checked {
            Ok(checked) => checked,
            Err(status) => return Err((status, Some(message))),
        };
        let Message { data, handles } = message;
        self.buffers.give(data);
        if handles.is_empty() {
            return Ok(());
        }
        self.deliver_handles(receiver, handles, to, buffers.etc).map_err(|status| (status, None))
    }

    /// Writes the sizes and bytes of a message, and reserves room for its handles. Returns the address for the handles.
    fn check_delivery(
        &mut self,
        aspace: Key,
        process: Id<Process>,
        message: &Message,
        buffers: CallBuffers,
    ) -> Result<UserDestination, Status> {
        let (bytes, handles) = (message.data.len(), message.handles.len());
        self.copy_out(aspace, buffers.actual_bytes, &(bytes as u32).to_le_bytes())?;
        self.copy_out(aspace, buffers.actual_handles, &(handles as u32).to_le_bytes())?;
        if bytes > buffers.num_bytes as usize || handles > buffers.num_handles as usize {
            return Err(Status::BUFFER_TOO_SMALL);
        }
        let mut to = UserDestination::NOWHERE;
        if handles > 0 {
            to = self.user_place(aspace, buffers.handles, handles * handle_size(buffers.etc))?;
            self.reserve_handles(process, handles)?;
        }
        self.copy_out(aspace, buffers.bytes, &message.data)?;
        Ok(to)
    }

    /// Puts a message's handles into a process's table and their values, or descriptions, into an array in an address
    /// space.
    ///
    /// # Errors
    /// `NO_MEMORY`, `INVALID_ARGS` (memory not writable); what could not be delivered is closed then.
    #[inline(never)]
    pub fn deliver_handles(
        &mut self,
        receiver: (Id<Process>, Key),
        mut handles: Vec<Handle>,
        to: UserDestination,
        etc: bool,
    ) -> Result<(), Status> {
        let mut result = Ok(());
        for (i, &handle) in handles.iter().enumerate() {
            result = result.and(self.deliver_handle(receiver, handle, to.on(i * handle_size(etc)), etc));
        }
        handles.clear();
        self.buffers.give_list(handles);
        result
    }

    #[inline(always)]
    fn deliver_handle(
        &mut self,
        (process, aspace): (Id<Process>, Key),
        handle: Handle,
        to: UserDestination,
        etc: bool,
    ) -> Result<(), Status> {
        let value = self.objects.get_mut(process).and_then(|receiver| receiver.handles.insert(handle));
        let value = value.inspect_err(|_| self.drop_handle(handle))?;
        let written = if etc {
            let kind = self.objects.any(handle.object)?.body.object_type();
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&value.to_le_bytes());
            bytes[4..8].copy_from_slice(&kind.to_le_bytes());
            bytes[8..12].copy_from_slice(&handle.rights.bits().to_le_bytes());
            self.fill_place(aspace, to, &bytes)
        } else {
            self.fill_place(aspace, to, &value.to_le_bytes())
        };
        if let Err(status) = written {
            let handle = self.take(process, value)?;
            self.drop_handle(handle);
            return Err(status);
        }
        Ok(())
    }
}
