//! Events to bytes and back: the content of the frames.

use std::collections::HashMap;

use super::error::{Invalid, Reason};
use super::event::Event;
use super::varint;

const NEW_SHAPE: u64 = 0;
const REALLOCATE: u64 = 1;
const THREAD: u64 = 2;
const TICK: u64 = 3;
const FIRST_SHAPE: u64 = 4;
const MOST_SHAPES: usize = 1 << 16;

#[derive(Default)]
pub(crate) struct Encoder {
    shapes: HashMap<(u64, u32), u64>,
    last: u32,
}

impl Encoder {
    pub(crate) fn encode(&mut self, event: Event, out: &mut Vec<u8>) {
        match event {
            Event::Allocate { slot, size, align } => {
                self.last = slot;
                if let Some(&index) = self.shapes.get(&(size, align)) {
                    varint::write(out, index << 1);
                    return;
                }
                if self.shapes.len() < MOST_SHAPES {
                    self.shapes.insert((size, align), FIRST_SHAPE + self.shapes.len() as u64);
                }
                varint::write(out, NEW_SHAPE << 1);
                varint::write(out, size);
                varint::write(out, align.trailing_zeros().into());
            }
            Event::Free { slot } => {
                let delta = varint::zigzag(i64::from(slot) - i64::from(self.last));
                varint::write(out, delta << 1 | 1);
                self.last = slot;
            }
            Event::Reallocate { slot, size } => {
                varint::write(out, REALLOCATE << 1);
                varint::write(out, varint::zigzag(i64::from(slot) - i64::from(self.last)));
                varint::write(out, size);
                self.last = slot;
            }
            Event::Thread { thread } => {
                varint::write(out, THREAD << 1);
                varint::write(out, thread.into());
            }
            Event::Tick { ticks } => {
                varint::write(out, TICK << 1);
                varint::write(out, ticks);
            }
        }
    }
}

#[derive(Default)]
pub(crate) struct Decoder {
    shapes: Vec<(u64, u32)>,
    last: u32,
}

impl Decoder {
    /// Takes one event from the front of `content`; an allocation takes `next` as its slot.
    pub(crate) fn decode(
        &mut self,
        content: &mut &[u8],
        next: impl FnOnce() -> Result<u32, Invalid>,
    ) -> Result<Event, Reason> {
        let code = number(content)?;
        if code & 1 == 1 {
            return Ok(Event::Free { slot: self.slot(code >> 1)? });
        }
        Ok(match code >> 1 {
            NEW_SHAPE => {
                let size = number(content)?;
                let align = u32::try_from(number(content)?)
                    .ok()
                    .and_then(|log2| 1_u32.checked_shl(log2))
                    .ok_or(Reason::Frame("an alignment is out of bounds"))?;
                if self.shapes.len() < MOST_SHAPES {
                    self.shapes.push((size, align));
                }
                self.last = next().map_err(Reason::Event)?;
                Event::Allocate { slot: self.last, size, align }
            }
            REALLOCATE => {
                let code = number(content)?;
                Event::Reallocate { slot: self.slot(code)?, size: number(content)? }
            }
            THREAD => Event::Thread { thread: narrow(number(content)?)? },
            TICK => Event::Tick { ticks: number(content)? },
            index => {
                let &(size, align) = usize::try_from(index - FIRST_SHAPE)
                    .ok()
                    .and_then(|index| self.shapes.get(index))
                    .ok_or(Reason::Frame("a shape is used before it is defined"))?;
                self.last = next().map_err(Reason::Event)?;
                Event::Allocate { slot: self.last, size, align }
            }
        })
    }

    fn slot(&mut self, code: u64) -> Result<u32, Reason> {
        let slot = i64::from(self.last).wrapping_add(varint::unzigzag(code));
        self.last = narrow(slot as u64)?;
        Ok(self.last)
    }
}

fn number(content: &mut &[u8]) -> Result<u64, Reason> {
    varint::read(content).ok_or(Reason::Frame("a number is malformed"))
}

fn narrow(value: u64) -> Result<u32, Reason> {
    u32::try_from(value).map_err(|_| Reason::Frame("a number is out of bounds"))
}
