//! One file for each fault that was found and fixed, named after the fault.
//!
//! Misuse that the compiler now rejects is in documentation tests that must not compile: a free by
//! safe code (`Arena::try_free`), a meter that panics (`Meter`).

#![cfg(target_os = "linux")]

#[path = "../child/mod.rs"]
mod child;
#[path = "../executable/mod.rs"]
mod executable;

mod a_block_freed_and_not_found_again;
mod a_block_freed_by_a_smaller_layout;
mod a_block_freed_to_the_wrong_claim;
mod a_block_kept_with_a_gap;
#[cfg(feature = "allocator-api2")]
mod a_block_known_by_any_size_that_fits;
#[cfg(target_pointer_width = "64")]
mod a_block_of_all_words_there_can_be;
mod a_block_that_grew_up_to_the_seam;
mod a_claim_that_cannot_grow_downwards;
mod a_claim_within_a_claim;
mod a_growth_of_too_many_granules;
mod a_heap_opened_by_half;
mod a_hostile_request;
mod a_last_block_beside_memory_not_taken;
mod a_library_that_is_unloaded;
mod a_lock_held_across_a_fork;
mod a_lock_printed_while_it_is_taken;
mod a_lock_that_waits_for_itself;
#[cfg(all(feature = "allocator-api2", feature = "lock_api"))]
mod a_lock_whose_release_panics;
mod a_mapping_looked_up_at_each_call;
mod a_misaligned_address_of_a_block;
mod a_panic_out_of_a_global_allocator;
mod a_peak_that_only_rose;
mod a_pointer_into_a_block;
#[cfg(feature = "profiler")]
mod a_profile_begun_without_memory;
#[cfg(target_arch = "x86_64")]
mod a_quarantine_half_changed;
mod a_region_that_was_filled_before;
mod a_report_under_a_lock;
mod a_reservation_of_more_than_half_the_addresses;
mod a_resize_to_the_largest_size;
#[cfg(feature = "profiler")]
mod a_sampled_block_of_the_next_class;
mod a_shrink_that_fails;
mod a_size_of_zero;
mod a_size_rounded_to_pages;
mod a_small_request_met_by_a_medium_block;
mod a_source_used_before;
mod a_wild_pointer_beyond_the_heaps;
mod a_wilderness_joined_too_late;
mod a_withheld_block_found_by_a_traversal;
mod an_aligned_block_of_another_page;
mod an_aligned_block_passed_over;
mod an_alignment_beyond_all_bins;
mod an_alignment_ignored;
mod an_end_that_was_free_and_of_no_use;
mod an_index_with_cells_of_its_own;
mod bookkeeping_of_memory_given_back;
mod claims_without_a_claim;
mod classes_behind_equal_ones;
mod failing_requests_that_opened_heaps;
mod more_than_1024_cpus;
#[path = "../package/mod.rs"]
mod package;
mod pages_kept_by_an_empty_class;
mod settings_ignored_silently;
mod settings_that_calloc_ignored;
mod statistics_in_a_file_of_the_program;
mod the_environment_of_a_setuid_program;
mod zeroed_mappings_that_are_resized;

use std::alloc::Layout;

use pagewise::global::Pagewise;
use pagewise::source::Region;

#[global_allocator]
static ALLOCATOR: Pagewise = Pagewise::new();

/// Returns the resident bytes of this process.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").expect("there is a /proc");
    let pages = status.split(' ').nth(1).expect("the second number");
    // SAFETY: the call touches no memory of ours.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).expect("a size");
    pages.parse::<usize>().expect("a number") * page
}

/// Returns leaked memory as a region.
fn leaked(bytes: usize) -> Region {
    let memory = vec![std::mem::MaybeUninit::<u64>::uninit(); bytes / 8].leak();
    // SAFETY: the memory is never freed, and is used by the region alone.
    unsafe { Region::new(memory.as_mut_ptr().cast(), bytes) }
}

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).expect("a valid layout")
}
