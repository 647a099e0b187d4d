//! Calls that only show that arguments arrive: each returns the sum of its own.

use objects::machine::Machine;

use crate::cx::Cx;

fn sum(args: &[i32]) -> i64 {
    i64::from(args.iter().fold(0i32, |sum, &arg| sum.wrapping_add(arg)))
}

macro_rules! tests {
    ($($name:ident($($arg:ident),*);)*) => {
        $(
            /// Returns the sum of its arguments.
            #[allow(clippy::too_many_arguments)]
            pub fn $name<M: Machine>(_cx: &mut Cx<'_, M>, $($arg: i32),*) -> i64 {
                sum(&[$($arg),*])
            }
        )*
    };
}

tests! {
    syscall_test_0();
    syscall_test_1(a);
    syscall_test_2(a, b);
    syscall_test_3(a, b, c);
    syscall_test_4(a, b, c, d);
    syscall_test_5(a, b, c, d, e);
    syscall_test_6(a, b, c, d, e, f);
    syscall_test_7(a, b, c, d, e, f, g);
    syscall_test_8(a, b, c, d, e, f, g, h);
}
