//! Values that are the same for all users, and may be renewed while requests are filled in with them.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::TAKEN_BYTES_MAX;
use super::inspect::is_sound;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Values by number, shared by all that fill requests in with them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Values(Arc<Vec<Vec<u8>>>);

impl Values {
    /// Whether these are the very same, and not only alike.
    #[inline]
    pub fn are(&self, other: &Values) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether each may be sent: what is too long, or would end a line, may not.
    pub fn are_sound(&self) -> bool {
        let is_sound = |value: &Vec<u8>| value.len() <= TAKEN_BYTES_MAX && is_sound(value);
        self.iter().all(is_sound)
    }
}

impl Deref for Values {
    type Target = [Vec<u8>];

    #[inline]
    fn deref(&self) -> &[Vec<u8>] {
        &self.0
    }
}

/// Without the values, which may be secrets.
impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} values", self.len())
    }
}

/// The values as they are now. Clones are of one and the same; what is written down has them as they were then.
///
/// Workers look at [`Known::version`] between two turns, which is one load of memory that nobody writes, and take the
/// values only where it has changed.
#[derive(Clone, Default)]
pub struct Known(Arc<Inner>);

#[derive(Default)]
struct Inner {
    version: AtomicU32,
    now: Mutex<Values>,
}

impl Known {
    /// So many, each a letter: as they stand before anything is known.
    pub fn unknown(count: usize) -> Known {
        let known = Known::default();
        known.renew(vec![b"x".to_vec(); count]);
        known
    }

    /// Puts others in their place, as many.
    pub fn renew(&self, values: Vec<Vec<u8>>) {
        let mut now = self.0.now.lock().unwrap_or_else(PoisonError::into_inner);
        *now = Values(Arc::new(values));
        self.0.version.fetch_add(1, Ordering::Release);
    }

    /// Changes whenever they are renewed.
    #[inline]
    pub fn version(&self) -> u32 {
        self.0.version.load(Ordering::Acquire)
    }

    /// As they are.
    pub fn now(&self) -> Values {
        let now = self.0.now.lock().unwrap_or_else(PoisonError::into_inner);
        Values::clone(&now)
    }

    /// As they are, where nobody is renewing them at this moment.
    pub fn try_now(&self) -> Option<Values> {
        Some(Values::clone(&*self.0.now.try_lock().ok()?))
    }
}

/// Without the values, which may be secrets.
impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.now().len();
        f.debug_struct("Known").field("values", &count).finish()
    }
}

impl PartialEq for Known {
    fn eq(&self, other: &Known) -> bool {
        self.now() == other.now()
    }
}

impl Eq for Known {}

impl Serialize for Known {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        crate::bytes::many::serialize(&self.now(), to)
    }
}

impl<'de> Deserialize<'de> for Known {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Known, D::Error> {
        let known = Known::default();
        known.renew(crate::bytes::many::deserialize(from)?);
        Ok(known)
    }
}
