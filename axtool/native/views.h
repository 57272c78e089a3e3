// Boxes of tensors and the bytes they occupy: the geometry that validation, merging and the kernels share.
#pragma once
#include <cstdint>
#include <string>

namespace axtool {

struct Dims {
  int64_t h, w, c;
};

// Rows [y, y+h), columns [x, x+w), channels [c, c+n).
struct Box {
  int64_t y, x, c, h, w, n;
};

// A box of a tensor in a memory: `offset` is the address of element (box.y, box.x, box.c).
struct View {
  int memory;  // 0 ext, 1 ocm
  int64_t offset;
  Box box;
  int64_t row, pixel;  // strides in bytes

  int64_t at(int64_t y, int64_t x, int64_t c) const {
    return offset + (y - box.y) * row + (x - box.x) * pixel + (c - box.c);
  }
  int64_t end() const { return offset + (box.h - 1) * row + (box.w - 1) * pixel + box.n; }  // one past the last byte
};

// Limits that keep every product of the geometry inside int64.
constexpr int64_t kMaxExtent = int64_t(1) << 23;  // rows, columns and their first index
constexpr int64_t kMaxBytes = int64_t(1) << 38;   // a memory, a stride, channels (flat views are all channels)

inline bool empty(const Box &b) { return b.h <= 0 || b.w <= 0 || b.n <= 0; }
inline bool same_extent(const Box &a, const Box &b) { return a.h == b.h && a.w == b.w && a.n == b.n; }
inline Box whole(const Dims &d) { return {0, 0, 0, d.h, d.w, d.c}; }
inline Box flat(int64_t first, int64_t bytes) { return {0, 0, first, 1, 1, bytes}; }

bool contains(const Box &outer, const Box &inner);
Box intersection(const Box &a, const Box &b);
Box hull(const Box &a, const Box &b);
bool unites_to_box(const Box &a, const Box &b);  // disjoint, and together exactly their hull

// The same layout seen through two views: element (y, x, c) has the same address in both.
bool same_origin(const View &a, const View &b);
// The part of a view that `box` names.
View part_of(const View &view, const Box &box);

bool dense(const View &view);                     // no byte of [offset, end) lies outside the view
bool overlaps(const View &a, const View &b);      // may share a byte (false is proven)
bool covers(const View &outer, const View &inner);  // every byte of inner is a byte of outer (true is proven)
bool elements_disjoint(const View &view);         // no two elements share a byte (true is proven)

std::string to_string(const Box &box);

}  // namespace axtool
