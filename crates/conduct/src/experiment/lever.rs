//! What a lever of the apparatus can be told, and what it tells.

use std::fmt::Display;

use wallfinder_model::experiment::Squeeze;

/// Reduces one resource, and takes the reduction back.
pub trait Lever {
    /// Which resource.
    fn squeeze(&self) -> Squeeze;
    /// How, in words.
    fn how(&self) -> String;
    /// Leaves this part of the resource; 1 is the sham.
    fn set(&mut self, retained: f64) -> Result<(), Box<dyn Display>>;
    /// A measured window begins.
    fn begin_window(&mut self);
    /// It has ended: whether the reduction was in force.
    fn end_window(&mut self) -> Check;
}

/// The check of a manipulation.
#[derive(Debug, Clone, Default)]
pub struct Check {
    /// What was really left.
    pub retained: Option<f64>,
    /// Whether it was in force.
    pub in_force: Option<bool>,
    /// What was seen.
    pub text: String,
}
