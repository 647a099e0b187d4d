//! The support table is correct: an unsupported call returns `ZX_ERR_NOT_SUPPORTED`, no other call does, and no call
//! returns a status that its definition does not list.
//!
//! There is a case for each call of the definitions. If the sweep has a row for a call, the case uses the row's valid
//! arguments, otherwise zeroes and addresses of memory.

use abi::{Status, Support, Sweep, SyscallInfo, Via};

use crate::check::{Case, Outcome};
use crate::sweep;

/// The cases: `support.<call>`. Two kinds of calls are left out: calls that never return, and calls of the vDSO that
/// the sweep leaves out, because they would use the zeroes.
pub fn cases() -> Vec<Case> {
    let zeroes_will_do =
        |call: &&SyscallInfo| call.via == Via::Server || matches!(call.tests().sweep, Sweep::None("") | Sweep::Rows(_));
    let calls = abi::SYSCALLS.iter().filter(|call| !call.noreturn).filter(zeroes_will_do);
    calls.map(|call| Case::new(&format!("support.{}", call.name), || agrees(call))).collect()
}

fn agrees(call: &SyscallInfo) -> Outcome {
    let function = zx::sys::address(call.name).ok_or("it has no entry point")?;
    // Each required pointer gets memory of its own.
    let mut memory = vec![[0_u64; 512]; call.args.len()];
    let words: Vec<u64> = call
        .args
        .iter()
        .zip(&mut memory)
        .map(|(arg, memory)| if arg.dir.is_some() && !arg.optional { memory.as_mut_ptr() as u64 } else { 0 })
        .collect();
    let mut answers = sweep::answers(function)?;
    if answers.is_empty() {
        answers.push(Status(zx::probe::call(function, &words) as i32));
        // Handles that the call created are closed; a thread has only one virtual processor at a time, for example.
        for (arg, memory) in call.args.iter().zip(&memory) {
            if arg.ty == "handle" && arg.dir.is_some() {
                drop(zx::Handle::from_raw(memory[0] as u32));
            }
        }
        if call.name == "restricted_bind_state" {
            zx::unbind_restricted_state()?;
        }
    }
    // Some calls return a size.
    let told = |answer: &Status| answer.0 >= 0 || call.returns != "status" || call.errors.contains(answer);
    let untold = answers.iter().find(|&answer| !told(answer));
    let said = answers.contains(&Status::NOT_SUPPORTED);
    match call.support {
        Support::Unsupported(_) if answers.iter().any(|answer| *answer != Status::NOT_SUPPORTED) => {
            Err(format!("the table calls it unsupported, but it answered {answers:?}").into())
        }
        Support::Supported | Support::Partial(_) if said && call.returns == "status" => {
            Err(format!("the table says {:?}, but it answered ZX_ERR_NOT_SUPPORTED", call.support).into())
        }
        Support::Unsupported(_) => Ok(()),
        _ => {
            untold.map_or(Ok(()), |other| Err(format!("it answered {other}, of which the table knows nothing").into()))
        }
    }
}
