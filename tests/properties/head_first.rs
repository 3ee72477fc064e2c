//! Best fit with space-fitting, in its four compositions and over other searches. Those that traverse
//! all blocks are driven by name: exhausting memory takes them minutes.

use pagewise::catalogue::{HeadFirst, HeadFirstChunkUp, NonHeadFirst, NonHeadFirstChunkUp};
use pagewise::fit::{First, Worst};
use pagewise::head_first::{ChunkUp, HeadFirst as RegionFirst, NoChunkUp, SpaceFitting};

/// The paper's future work: other fits behind the region.
type OverFirst<S> = SpaceFitting<RegionFirst, NoChunkUp, First, S>;
type OverWorst<S> = SpaceFitting<RegionFirst, ChunkUp, Worst, S>;

strategies! {
    InBand;
    head_first: true, |config, source| HeadFirst::new(config.page_size, source, ());
    head_first_chunk_up: true, |config, source| {
        HeadFirstChunkUp::new(config.page_size, source, ())
    };
    non_head_first: true, |config, source| NonHeadFirst::new(config.page_size, source, ());
    non_head_first_chunk_up: true, |config, source| {
        NonHeadFirstChunkUp::new(config.page_size, source, ())
    };
    over_first_fit: true, |config, source| OverFirst::new(config.page_size, source, ());
    over_worst_fit: true, |config, source| OverWorst::new(config.page_size, source, ());
}
