//! What is asked of the kernel for memory that is about to be filled.

use rustix::mm::{Advice, madvise};
use rustix::param::page_size;

/// Asks for large pages behind the room of a vector, where the kernel gives them on request
/// (`transparent_hugepage` at `madvise`, as on most distributions): a hundred megabytes are fifty faults
/// then, and not 25,000. For vectors that will be filled: a large page is there whole.
pub fn in_large_pages<T>(of: &mut Vec<T>) {
    let page = page_size();
    let bytes = of.capacity() * size_of::<T>();
    let room = of.as_mut_ptr().cast::<u8>();
    let before = room.align_offset(page);
    let Some(whole) = bytes.checked_sub(before).map(|bytes| bytes / page * page) else {
        return;
    };
    if whole > 0 {
        // SAFETY: `whole` bytes from there lie within the vector's room, and the advice changes none of
        // them. That it is not followed is no harm.
        let _ = unsafe { madvise(room.add(before).cast(), whole, Advice::LinuxHugepage) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_vector_holds_stays() {
        in_large_pages(&mut Vec::<u64>::new());
        in_large_pages(&mut vec![1_u8]);
        let mut large: Vec<u64> = Vec::with_capacity(1 << 20);
        large.extend(0..1000);
        in_large_pages(&mut large);
        large.extend(1000..1 << 20);
        assert!(large.iter().copied().eq(0..1 << 20));
    }
}
