//! What a tuning may say: the least and the most of each parameter that is not its pages', and nothing beyond.

use pagewise::global::{Tuning, TuningError};

#[test]
fn parameters_have_their_bounds() {
    let usual = Tuning::new();
    assert_eq!(usual.check(), Ok(()));
    assert_eq!(usual.pages(usual.pages.unit(32)).check(), Err(TuningError::Unit));
    for (blocks, is_allowed) in [(0, false), (1, false), (2, true), (1024, true), (1025, false)] {
        let error = if is_allowed { Ok(()) } else { Err(TuningError::QuickBlocks) };
        assert_eq!(usual.quick_blocks(blocks).check(), error, "{blocks}");
    }
    for (heaps, is_allowed) in [(0, false), (1, true), (2, true), (16, true), (17, false)] {
        let error = if is_allowed { Ok(()) } else { Err(TuningError::HeapsPerCpu) };
        assert_eq!(usual.heaps_per_cpu(heaps).check(), error, "{heaps}");
    }
    let bounds =
        [((64 << 10) - 1, false), (64 << 10, true), (1 << 30, true), ((1 << 30) + 1, false)];
    for (bytes, is_allowed) in bounds {
        let error = if is_allowed { Ok(()) } else { Err(TuningError::MappingFrom) };
        assert_eq!(usual.mapping_from(bytes).check(), error, "{bytes}");
    }
}
