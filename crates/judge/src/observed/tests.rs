use super::*;
use crate::double::{a_machine, a_step};

#[test]
fn smoke() {
    let step = a_step().server(1.0, 0.98).client(1.0, 0.41).build();
    let v = verdict(&step, &a_machine());
    assert_eq!(v.wall, Wall::ServerCpu, "{v:#?}");
    assert_eq!(
        v.sentence,
        "The server's CPU: its one core was 98 % busy while the load generator idled at 41 %."
    );
}
