//! Takes the cells of a heap from its source.

use super::cells::Cells;
use super::header::MAX_CELLS;
use super::layout::CELL;
use crate::error::AllocError;
use crate::source::Source;

impl Cells {
    /// Takes memory from the source so that there are `end` cells, no fewer than there were. The
    /// heap must write the last header.
    ///
    /// # Errors
    /// If the source has no more, or the cells are more than a heap can have.
    ///
    /// # Safety
    /// These cells are all that was ever taken of the source's extent.
    pub(crate) unsafe fn append<S: Source>(
        &mut self,
        end: u32,
        source: &mut S,
    ) -> Result<(), AllocError> {
        if end > MAX_CELLS {
            return Err(AllocError::Exhausted);
        }
        // 2³⁰ cells are more than 32 bits address.
        let more = end - self.end();
        let bytes = (more as usize).checked_mul(CELL).ok_or(AllocError::Exhausted)?;
        let memory = source.extend(bytes, CELL)?;
        let origin = if self.end() == 0 { memory.as_ptr() } else { self.origin() };
        // SAFETY: the extent is the cells' alone, as the caller promises, and grows where it ended.
        unsafe { self.extend(origin, end) };
        Ok(())
    }
}
