---@meta

--- made.lua -- methods of tensors that loops and C make, for editors and the reference
---
--- Never loaded.  What it says of a method holds for the one that tensor/ makes under this
--- name: pools of one, two and three dimensions, PyTorch's other names, those of the handle.
---
--- SPDX-License-Identifier: MIT

---@class mrt.Tensor
local Tensor = {}

--- Average windows of signals so that output_size of them cover each: one number, or
--- one for each side.
---
---     mrt.tensor{{{1.0, 3.0, 5.0, 7.0}}}:adaptive_avg_pool1d(2)  --> [[[2.0 6.0]]]
---
--- Shapes: `[N,C,L]` -> `[N,C,size]`.
--- Raises: sizes below 1.
---@param output_size any
---@return mrt.Tensor
function Tensor:adaptive_avg_pool1d(output_size) end

--- Average windows of images so that output_size of them cover each: one number, or
--- one for each side.
---
---     mrt.ones(1, 1, 5, 7):adaptive_avg_pool2d({2, 3}):type()  --> f32[1,1,2,3]
---
--- Shapes: `[N,C,H,W]` -> `[N,C,size...]`.
--- Raises: sizes below 1.
---@param output_size any
---@return mrt.Tensor
function Tensor:adaptive_avg_pool2d(output_size) end

--- Average windows of volumes so that output_size of them cover each: one number, or
--- one for each side.
---
---     mrt.ones(1, 1, 4, 4, 4):adaptive_avg_pool3d(2):type()  --> f32[1,1,2,2,2]
---
--- Shapes: `[N,C,D,H,W]` -> `[N,C,size...]`.
--- Raises: sizes below 1.
---@param output_size any
---@return mrt.Tensor
function Tensor:adaptive_avg_pool3d(output_size) end

--- Take the largest of windows of signals so that `size` of them cover each: one
--- number, or one for each side; with return_indices also where it was.
---
---     mrt.tensor{{{1.0, 3.0, 5.0, 7.0}}}:adaptive_max_pool1d(2)  --> [[[3.0 7.0]]]
---
--- Shapes: `[N,C,L]` -> `[N,C,size]`.
--- Raises: sizes below 1.
---@param size any
---@param ... any
---@return mrt.Tensor
---@return mrt.Tensor?
function Tensor:adaptive_max_pool1d(size, ...) end

--- Take the largest of windows of images so that `size` of them cover each: one
--- number, or one for each side; with return_indices also where it was.
---
---     mrt.ones(1, 1, 5, 7):adaptive_max_pool2d({2, 3}):type()  --> f32[1,1,2,3]
---
--- Shapes: `[N,C,H,W]` -> `[N,C,size...]`.
--- Raises: sizes below 1.
---@param size any
---@param ... any
---@return mrt.Tensor
---@return mrt.Tensor?
function Tensor:adaptive_max_pool2d(size, ...) end

--- Take the largest of windows of volumes so that `size` of them cover each: one
--- number, or one for each side; with return_indices also where it was.
---
---     mrt.ones(1, 1, 4, 4, 4):adaptive_max_pool3d(2):type()  --> f32[1,1,2,2,2]
---
--- Shapes: `[N,C,D,H,W]` -> `[N,C,size...]`.
--- Raises: sizes below 1.
---@param size any
---@param ... any
---@return mrt.Tensor
---@return mrt.Tensor?
function Tensor:adaptive_max_pool3d(size, ...) end

--- x + alpha y.
---
---     mrt.tensor{1, 2}:add(mrt.tensor{3, 4}, 2)  --> [7 10]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@param alpha? number
---@return mrt.Tensor
function Tensor:add(y, alpha) end

--- The products of a batch added up, beta times x with them.
---
---     mrt.zeros(2, 2):addbmm(mrt.ones(3, 2, 4), mrt.ones(3, 4, 2))  --> [[12.0 12.0] [12.0 12.0]]
---
--- Shapes: x `[M,N]`, `[B,M,K]`, `[B,K,N]`.
--- Raises: sizes that do not fit.
---@param batch1 mrt.Tensor
---@param batch2 mrt.Tensor
---@param o? table
---@return mrt.Tensor
function Tensor:addbmm(batch1, batch2, o) end

--- x + value a / b.
---
---     mrt.tensor{1.0, 2.0}:addcdiv(mrt.tensor{4.0, 6.0}, mrt.tensor{2.0, 3.0}, 0.5)  --> [2.0 3.0]
---
--- Shapes: `[...]` of what all broadcast to.
--- Raises: shapes that do not broadcast.
---@param a mrt.Tensor
---@param b mrt.Operand
---@param value? number
---@return mrt.Tensor
function Tensor:addcdiv(a, b, value) end

--- x + value a b.
---
---     mrt.tensor{1.0, 2.0}:addcmul(mrt.tensor{4.0, 6.0}, mrt.tensor{2.0, 3.0}, 0.5)
---     --> [5.0 11.0]
---
--- Shapes: `[...]` of what all broadcast to.
--- Raises: shapes that do not broadcast.
---@param a mrt.Tensor
---@param b mrt.Operand
---@param value? number
---@return mrt.Tensor
function Tensor:addcmul(a, b, value) end

--- beta x + alpha mat1 @ mat2; {beta = 1, alpha = 1}.
---
---     mrt.ones(2, 2):addmm(mrt.ones(2, 3), mrt.ones(3, 2), { beta = 2 })
---     --> [[5.0 5.0] [5.0 5.0]]
---
--- Shapes: x `[M,N]`, `[M,K]`, `[K,N]`.
--- Raises: sizes that do not fit.
---@param mat1 mrt.Tensor
---@param mat2 mrt.Tensor
---@param o? table
---@return mrt.Tensor
function Tensor:addmm(mat1, mat2, o) end

---
---     mrt.ones(2):addmv(mrt.ones(2, 3), mrt.ones(3))  --> [4.0 4.0]
---
--- Shapes: x `[M]`, `[M,K]`, `[K]`.
--- Raises: sizes that do not fit.
---@param mat mrt.Tensor
---@param vec mrt.Tensor
---@param o? table
---@return mrt.Tensor
function Tensor:addmv(mat, vec, o) end

--- beta x + alpha outer(vec1, vec2).
---
---     mrt.zeros(2, 2):addr(mrt.tensor{1, 2}, mrt.tensor{3, 4})  --> [[3.0 4.0] [6.0 8.0]]
---
--- Shapes: x `[M,N]`, `[M]`, `[N]`.
--- Raises: sizes that do not fit.
---@param vec1 mrt.Tensor
---@param vec2 mrt.Tensor
---@param o? table
---@return mrt.Tensor
function Tensor:addr(vec1, vec2, o) end

--- Every one is.
---
---     mrt.tensor{{true, false}, {true, true}}:all(2)  --> [false true]
---
--- Shapes: `[...]` -> `[...]` without dim; scalar without one.
--- Raises: a dimension that x does not have.
---@param dim? any
---@param keepdim? boolean
---@return mrt.Tensor
function Tensor:all(dim, keepdim) end

--- Some is true, not 0.
---
---     mrt.tensor{{true, false}, {false, false}}:any(2)  --> [true false]
---
--- Shapes: `[...]` -> `[...]` without dim; scalar without one.
--- Raises: a dimension that x does not have.
---@param dim? any
---@param keepdim? boolean
---@return mrt.Tensor
function Tensor:any(dim, keepdim) end

--- Average each window of signals; options: stride (default kernel_size), padding,
--- ceil_mode, count_include_pad, by place or by name.
---
---     mrt.tensor{{{1.0, 3.0, 5.0}}}:avg_pool1d(2, 1)  --> [[[2.0 4.0]]]
---
--- Shapes: `[N,C,L]` -> `[N,C,L']`, L' = floor((L + 2 padding - k) / stride) + 1.
--- Raises: padding beyond half of a window, a window larger than what is there.
---@param kernel_size any
---@param ... any
---@return mrt.Tensor
function Tensor:avg_pool1d(kernel_size, ...) end

--- Average each window of images; options: stride (default kernel_size), padding,
--- ceil_mode, count_include_pad, by place or by name.
---
---     mrt.ones(1, 1, 4, 4):avg_pool2d(2):type()  --> f32[1,1,2,2]
---
--- Shapes: `[N,C,H,W]` -> `[N,C,H',W']`, L' = floor((L + 2 padding - k) / stride) + 1.
--- Raises: padding beyond half of a window, a window larger than what is there.
---@param kernel_size any
---@param ... any
---@return mrt.Tensor
function Tensor:avg_pool2d(kernel_size, ...) end

--- Average each window of volumes; options: stride (default kernel_size), padding,
--- ceil_mode, count_include_pad, by place or by name.
---
---     mrt.ones(1, 1, 4, 4, 4):avg_pool3d(2):type()  --> f32[1,1,2,2,2]
---
--- Shapes: `[N,C,D,H,W]` -> `[N,C,D',H',W']`, L' = floor((L + 2 padding - k) / stride) + 1.
--- Raises: padding beyond half of a window, a window larger than what is there.
---@param kernel_size any
---@param ... any
---@return mrt.Tensor
function Tensor:avg_pool3d(kernel_size, ...) end

--- beta x + alpha batch1 @ batch2, batch by batch.
---
---     mrt.ones(3, 2, 2):baddbmm(mrt.ones(3, 2, 4), mrt.ones(3, 4, 2)):sum()  --> 60
---
--- Shapes: x `[B,M,N]`, `[B,M,K]`, `[B,K,N]`.
--- Raises: sizes that do not fit.
---@param batch1 mrt.Tensor
---@param batch2 mrt.Tensor
---@param o? table
---@return mrt.Tensor
function Tensor:baddbmm(batch1, batch2, o) end

--- Multiply matrices, batch by batch.
---
---     mrt.ones(3, 2, 4):bmm(mrt.ones(3, 4, 2)):type()  --> f32[3,2,2]
---
--- Shapes: `[B,M,K]` @ `[B,K,N]` -> `[B,M,N]`.
--- Raises: sizes that do not fit.
---@param mat2 mrt.Tensor
---@return mrt.Tensor
function Tensor:bmm(mat2) end

--- All elements as a string: row-major, little-endian.  Computes.
---
---     #mrt.zeros(2, 3):bytes()  --> 24
---
--- Shapes: any shape.
---@return string
function Tensor:bytes() end

--- How many dimensions.
---
---     mrt.zeros(2, 3):dim()  --> 2
---@return integer
function Tensor:dim() end

--- Cut the third dimension into so many parts, or before these positions.
---
---     #mrt.zeros(2, 2, 4):dsplit(2)  --> 2
---
--- Shapes: `[a,b,c,...]`.
--- Raises: fewer than three dimensions, a count that does not divide c.
---@param indices_or_sections integer|integer[]
---@return mrt.Tensor ...
function Tensor:dsplit(indices_or_sections) end

--- One element as a number.  Computes.
---
---     mrt.tensor{{1, 2}, {3, 4}}:element(3)  --> 3
---
--- Shapes: a position from 1 in row-major order.
--- Raises: a position outside; within a compiled function.
---@param i integer
---@return number|boolean
function Tensor:element(i) end

--- Repeat x to the shape of another tensor.
---
---     mrt.tensor{{1}, {2}}:expand_as(mrt.zeros(2, 3))  --> [[1 1 1] [2 2 2]]
---
--- Shapes: `[...]` -> other's.
--- Raises: sizes that differ where x's is not 1.
---@param other mrt.Tensor
---@return mrt.Tensor
function Tensor:expand_as(other) end

--- Positions of the second dimension in the other order.
---
---     mrt.tensor{{1, 2}}:fliplr()  --> [[2 1]]
---
--- Shapes: `[a,b,...]`, the order of b turned.
--- Raises: fewer than two dimensions.
---@return mrt.Tensor
function Tensor:fliplr() end

--- Positions of the first dimension in the other order.
---
---     mrt.tensor{1, 2}:flipud()  --> [2 1]
---
--- Shapes: `[a,...]`.
--- Raises: a scalar.
---@return mrt.Tensor
function Tensor:flipud() end

--- Let go of the tensor now; any later use of it raises.
---
---     local x = mrt.zeros(2)
---     x:free()
---
--- Shapes: any shape.
function Tensor:free() end

--- Return the dtype, as `x.dtype`.
---
---     mrt.zeros(2):get_dtype()  --> f32
---@return any
function Tensor:get_dtype() end

--- Return the name, as `x.name`, if it has one.
---
---     mrt.variable(mrt.zeros(2), "w"):get_name()  --> w
---@return any
function Tensor:get_name() end

--- Return the sizes of all dimensions as a list, as `x.shape`.
---
---     #mrt.zeros(2, 3):get_shape()  --> 2
---@return any
function Tensor:get_shape() end

--- Cut the second dimension (of a vector the first) into so many parts, or before these
--- positions.
---
---     #mrt.zeros(2, 4):hsplit(2)  --> 2
---
--- Shapes: `[a,b,...]`.
--- Raises: a scalar, a count that does not divide b.
---@param indices_or_sections integer|integer[]
---@return mrt.Tensor ...
function Tensor:hsplit(indices_or_sections) end

--- Return the only element as a number.  Computes.
---
---     mrt.tensor{1, 2}:sum():item()  --> 3
---
--- Shapes: one element of any shape.
--- Raises: several elements; within a compiled function.
---@return number|boolean
function Tensor:item() end

--- Are both true, or not 0?
---
---     mrt.tensor{0, 2}:logical_and(mrt.tensor{1, 1})  --> [false true]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor:logical_and(y) end

--- Is one of them true, or not 0?
---
---     mrt.tensor{0, 2}:logical_or(mrt.tensor{0, 1})  --> [false true]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor:logical_or(y) end

--- Is just one of them true, or not 0?
---
---     mrt.tensor{0, 2}:logical_xor(mrt.tensor{1, 1})  --> [true false]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@return mrt.Tensor
function Tensor:logical_xor(y) end

--- (sum x^p)^(1/p) of each window of signals; options: stride (default kernel_size),
--- ceil_mode, by place or by name.
---
---     mrt.tensor{{{3.0, 4.0}}}:lp_pool1d(2, 2)  --> [[[5.0]]]
---
--- Shapes: `[N,C,L]` -> `[N,C,L']`, L' = floor((L - k) / stride) + 1.
--- Raises: a window larger than what is there.
---@param norm_type number
---@param kernel_size any
---@param ... any
---@return mrt.Tensor
function Tensor:lp_pool1d(norm_type, kernel_size, ...) end

--- (sum x^p)^(1/p) of each window of images; options: stride (default kernel_size),
--- ceil_mode, by place or by name.
---
---     mrt.ones(1, 1, 4, 4):lp_pool2d(2, 2):type()  --> f32[1,1,2,2]
---
--- Shapes: `[N,C,H,W]` -> `[N,C,H',W']`, L' = floor((L - k) / stride) + 1.
--- Raises: a window larger than what is there.
---@param norm_type number
---@param kernel_size any
---@param ... any
---@return mrt.Tensor
function Tensor:lp_pool2d(norm_type, kernel_size, ...) end

--- (sum x^p)^(1/p) of each window of volumes; options: stride (default kernel_size),
--- ceil_mode, by place or by name.
---
---     mrt.ones(1, 1, 4, 4, 4):lp_pool3d(2, 2):type()  --> f32[1,1,2,2,2]
---
--- Shapes: `[N,C,D,H,W]` -> `[N,C,D',H',W']`, L' = floor((L - k) / stride) + 1.
--- Raises: a window larger than what is there.
---@param norm_type number
---@param kernel_size any
---@param ... any
---@return mrt.Tensor
function Tensor:lp_pool3d(norm_type, kernel_size, ...) end

--- The largest element; along a dimension the largest and its 0-based position; of two
--- tensors the larger, element by element.
---
---     mrt.tensor{{1, 5}, {7, 2}}:max(2)  --> [5 7], [1 0]
---
--- Shapes: `[...]` -> scalar; with a dim `[...]` without it, and positions; with a tensor
--- what both broadcast to.
--- Raises: a dimension that x does not have.
---@param y? any
---@param keepdim? boolean
---@return mrt.Tensor
---@return mrt.Tensor?
function Tensor:max(y, keepdim) end

--- Take the largest of each window of signals; options: stride (default
--- kernel_size), padding, dilation, ceil_mode, return_indices, by place or by name.
---
---     mrt.tensor{{{1.0, 3.0, 2.0}}}:max_pool1d(2, 1)  --> [[[3.0 3.0]]]
---
--- Shapes: `[N,C,L]` -> `[N,C,L']`, L' = floor((L + 2 padding - dilation (k - 1) - 1) /
--- stride) + 1.
--- Raises: padding beyond half of a window, a window larger than what is there.
---@param kernel_size any
---@param ... any
---@return mrt.Tensor
---@return mrt.Tensor?
function Tensor:max_pool1d(kernel_size, ...) end

--- Take the largest of each window of images; options: stride (default
--- kernel_size), padding, dilation, ceil_mode, return_indices, by place or by name.
---
---     mrt.ones(1, 1, 4, 4):max_pool2d(2):type()  --> f32[1,1,2,2]
---
--- Shapes: `[N,C,H,W]` -> `[N,C,H',W']`, L' = floor((L + 2 padding - dilation (k - 1) - 1)
--- / stride) + 1.
--- Raises: padding beyond half of a window, a window larger than what is there.
---@param kernel_size any
---@param ... any
---@return mrt.Tensor
---@return mrt.Tensor?
function Tensor:max_pool2d(kernel_size, ...) end

--- Take the largest of each window of volumes; options: stride (default
--- kernel_size), padding, dilation, ceil_mode, return_indices, by place or by name.
---
---     mrt.ones(1, 1, 4, 4, 4):max_pool3d(2):type()  --> f32[1,1,2,2,2]
---
--- Shapes: `[N,C,D,H,W]` -> `[N,C,D',H',W']`, L' = floor((L + 2 padding - dilation (k - 1)
--- - 1) / stride) + 1.
--- Raises: padding beyond half of a window, a window larger than what is there.
---@param kernel_size any
---@param ... any
---@return mrt.Tensor
---@return mrt.Tensor?
function Tensor:max_pool3d(kernel_size, ...) end

--- The smallest element; along a dimension the smallest and its 0-based position; of two
--- tensors the smaller, element by element.
---
---     mrt.tensor{{1, 5}, {7, 2}}:min(2)  --> [1 2], [0 1]
---
--- Shapes: `[...]` -> scalar; with a dim `[...]` without it, and positions; with a tensor
--- what both broadcast to.
--- Raises: a dimension that x does not have.
---@param y? any
---@param keepdim? boolean
---@return mrt.Tensor
---@return mrt.Tensor?
function Tensor:min(y, keepdim) end

--- Multiply two matrices.
---
---     mrt.ones(2, 3):mm(mrt.ones(3, 4)):type()  --> f32[2,4]
---
--- Shapes: `[M,K]` @ `[K,N]` -> `[M,N]`.
--- Raises: what is no matrix, sizes that do not fit.
---@param mat2 mrt.Tensor
---@return mrt.Tensor
function Tensor:mm(mat2) end

--- Multiply a matrix and a vector.
---
---     mrt.tensor{{1, 2}, {3, 4}}:to "f32":mv(mrt.tensor{1.0, 1.0})  --> [3.0 7.0]
---
--- Shapes: `[M,K]` @ `[K]` -> `[M]`.
--- Raises: sizes that do not fit.
---@param vec mrt.Tensor
---@return mrt.Tensor
function Tensor:mv(vec) end

--- How many bytes all elements take.
---
---     mrt.zeros(2, 3):nbytes()  --> 24
---
--- Shapes: any shape.
---@return integer
function Tensor:nbytes() end

--- How many elements.
---
---     mrt.zeros(2, 3):numel()  --> 6
---
--- Shapes: any shape.
---@return integer
function Tensor:numel() end

--- Return the file and the line where the tensor was made.
---
---     mrt.zeros(2):origin()
---
--- Shapes: any shape.
---@return string
---@return integer
function Tensor:origin() end

--- The elements of x under the shape of another tensor.
---
---     mrt.arange(4):reshape_as(mrt.zeros(2, 2))  --> [[0 1] [2 3]]
---
--- Shapes: `[...]` -> other's.
--- Raises: other counts of elements.
---@param other mrt.Tensor
---@return mrt.Tensor
function Tensor:reshape_as(other) end

--- Name the tensor, for reports, as `x.name = ...`.
---
---     local x = mrt.zeros(2)
---     x:set_name "x"
---
--- Raises: a name that is no string.
---@return any
function Tensor:set_name() end

--- Return the size of a dimension, or all of them as a list.
---
---     mrt.zeros(2, 3):size(2)  --> 3
---
--- Shapes: any shape.
--- Raises: a dimension that x does not have.
---@param dim? integer
---@return integer|integer[]
function Tensor:size(dim) end

--- x - alpha y.
---
---     mrt.tensor{1, 2}:sub(mrt.tensor{3, 4}, 2)  --> [-5 -6]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@param alpha? number
---@return mrt.Tensor
function Tensor:sub(y, alpha) end

--- x - alpha y, as `sub`.
---
---     mrt.tensor{1, 2}:subtract(3)  --> [-2 -1]
---
--- Shapes: `[...]` of what x and y broadcast to.
--- Raises: shapes that do not broadcast.
---@param y mrt.Operand
---@param alpha? number
---@return mrt.Tensor
function Tensor:subtract(y, alpha) end

--- Swap two dimensions; as `transpose`.
---
---     mrt.zeros(2, 3):swapaxes(1, 2):type()  --> f32[3,2]
---
--- Shapes: `[..., a, ..., b]` -> `[..., b, ..., a]`.
--- Raises: dimensions that x does not have.
---@param axis0 integer
---@param axis1 integer
---@return mrt.Tensor
function Tensor:swapaxes(axis0, axis1) end

--- Swap two dimensions; as `transpose`.
---
---     mrt.zeros(2, 3):swapdims(1, 2):type()  --> f32[3,2]
---
--- Shapes: `[..., a, ..., b]` -> `[..., b, ..., a]`.
--- Raises: dimensions that x does not have.
---@param dim0 integer
---@param dim1 integer
---@return mrt.Tensor
function Tensor:swapdims(dim0, dim1) end

--- Return all elements as nested lists, of a scalar the number.  Computes.
---
---     mrt.tensor{{1, 2}, {3, 4}}:totable()[2][1]  --> 3
---
--- Shapes: any shape.
--- Raises: within a compiled function.
---@return any
function Tensor:totable() end

--- Return dtype and shape as text.
---
---     mrt.zeros(2, 3):type()  --> f32[2,3]
---@return string
function Tensor:type() end

--- Sum of products of two vectors, as `dot`.
---
---     mrt.tensor{1.0, 2.0}:vdot(mrt.tensor{3.0, 4.0})  --> 11
---
--- Shapes: `[n]`, `[n]` -> scalar.
--- Raises: what is no vector, sizes that differ.
---@param other mrt.Tensor
---@return mrt.Tensor
function Tensor:vdot(other) end

--- The elements of x under the shape of another tensor.
---
---     mrt.arange(4):view_as(mrt.zeros(2, 2))  --> [[0 1] [2 3]]
---
--- Shapes: `[...]` -> other's.
--- Raises: other counts of elements.
---@param other mrt.Tensor
---@return mrt.Tensor
function Tensor:view_as(other) end

--- Cut the first dimension into so many parts, or before these positions.
---
---     #mrt.zeros(4, 2):vsplit(2)  --> 2
---
--- Shapes: `[a,b,...]`.
--- Raises: fewer than two dimensions, a count that does not divide a.
---@param indices_or_sections integer|integer[]
---@return mrt.Tensor ...
function Tensor:vsplit(indices_or_sections) end

---@class mrt
local mrt = {}

--- Zeros of x's shape and dtype.
---
---     mrt.zeros_like(mrt.ones(2))  --> [0.0 0.0]
---
--- Shapes: `[...]` of x's shape.
--- Raises: what is no tensor, an option that there is not.
---@param x mrt.Tensor
---@param o? {dtype: mrt.DType?}
---@return mrt.Tensor
function mrt.zeros_like(x, o) end

--- Ones of x's shape and dtype.
---
---     mrt.ones_like(mrt.zeros(2))  --> [1.0 1.0]
---
--- Shapes: `[...]` of x's shape.
--- Raises: what is no tensor, an option that there is not.
---@param x mrt.Tensor
---@param o? {dtype: mrt.DType?}
---@return mrt.Tensor
function mrt.ones_like(x, o) end

--- Zeros of x's shape and dtype.
---
---     mrt.empty_like(mrt.ones(2)):type()  --> f32[2]
---
--- Shapes: `[...]` of x's shape.
--- Raises: what is no tensor, an option that there is not.
---@param x mrt.Tensor
---@param o? {dtype: mrt.DType?}
---@return mrt.Tensor
function mrt.empty_like(x, o) end

--- Uniform numbers in [0, 1) of x's shape and dtype.
---
---     mrt.rand_like(mrt.ones(2)):type()  --> f32[2]
---
--- Shapes: `[...]` of x's shape.
--- Raises: what is no tensor, an option that there is not.
---@param x mrt.Tensor
---@param o? {dtype: mrt.DType?}
---@return mrt.Tensor
function mrt.rand_like(x, o) end

--- Normal numbers of x's shape and dtype.
---
---     mrt.randn_like(mrt.ones(2)):type()  --> f32[2]
---
--- Shapes: `[...]` of x's shape.
--- Raises: what is no tensor, an option that there is not.
---@param x mrt.Tensor
---@param o? {dtype: mrt.DType?}
---@return mrt.Tensor
function mrt.randn_like(x, o) end

--- Tensors with at least one dimension.
---
---     mrt.atleast_1d(mrt.tensor(3)):type()  --> i64[1]
---
--- Shapes: scalar -> `[1]`.
--- Raises: what is no tensor.
---@param ... mrt.Tensor|mrt.Tensor[]
---@return mrt.Tensor ...
function mrt.atleast_1d(...) end

--- Tensors with at least two dimensions.
---
---     mrt.atleast_2d(mrt.tensor{1, 2}):type()  --> i64[1,2]
---
--- Shapes: `[n]` -> `[1,n]`.
--- Raises: what is no tensor.
---@param ... mrt.Tensor|mrt.Tensor[]
---@return mrt.Tensor ...
function mrt.atleast_2d(...) end

--- Tensors with at least three dimensions.
---
---     mrt.atleast_3d(mrt.tensor{1, 2}):type()  --> i64[1,2,1]
---
--- Shapes: `[n]` -> `[1,n,1]`.
--- Raises: what is no tensor.
---@param ... mrt.Tensor|mrt.Tensor[]
---@return mrt.Tensor ...
function mrt.atleast_3d(...) end

--- Is it a tensor?
---
---     mrt.is_tensor(mrt.zeros(2))  --> true
---
--- Anything may be asked; it is no error.
---@param value any
---@return boolean
function mrt.is_tensor(value) end

--- Is it a variable: a tensor that can be assigned?
---
---     mrt.is_variable(mrt.variable(mrt.zeros(2)))  --> true
---
--- Anything may be asked; it is no error.
---@param value any
---@return boolean
function mrt.is_variable(value) end

--- Is a compiled function being traced?
---
---     mrt.tracing()  --> false
---@return boolean
function mrt.tracing() end

--- Apply an operator that updates in place, by name: what optimizers of one's own are
--- made of.
---
---     local average = mrt.variable(mrt.zeros(2))
---     mrt.update("average", { average, mrt.ones(2), mrt.tensor(0.5, "f32") })
---
--- Shapes: `[...]` of one shape, as the operator's row says.
--- Raises: an operator that there is not, inputs that do not fit.
---@param name string
---@param inputs mrt.Tensor[]
---@param options? table
function mrt.update(name, inputs, options) end

---@class mrt.fft
local fft = {}

--- Transform complex numbers along two dimensions, by default the last two.
---
---     mrt.fft.fft2(mrt.ones(4, 4, 2)):type()  --> f32[4,4,2]
---
--- Shapes: `[..., 2]` -> the same.
--- Raises: dimensions that x does not have, a norm that there is not.
---@param x mrt.Tensor
---@param ... any  s: sizes, dim, norm; or by name
---@return mrt.Tensor
function fft.fft2(x, ...) end

--- Transform complex numbers along several dimensions, by default all.
---
---     mrt.fft.fftn(mrt.ones(4, 4, 2)):type()  --> f32[4,4,2]
---
--- Shapes: `[..., 2]` -> the same.
--- Raises: dimensions that x does not have, a norm that there is not.
---@param x mrt.Tensor
---@param ... any  s: sizes, dim, norm; or by name
---@return mrt.Tensor
function fft.fftn(x, ...) end

--- Transform complex numbers back along two dimensions, by default the last two.
---
---     mrt.fft.ifft2(mrt.ones(4, 4, 2)):type()  --> f32[4,4,2]
---
--- Shapes: `[..., 2]` -> the same.
--- Raises: dimensions that x does not have, a norm that there is not.
---@param x mrt.Tensor
---@param ... any  s: sizes, dim, norm; or by name
---@return mrt.Tensor
function fft.ifft2(x, ...) end

--- Transform complex numbers back along several dimensions, by default all.
---
---     mrt.fft.ifftn(mrt.ones(4, 4, 2)):type()  --> f32[4,4,2]
---
--- Shapes: `[..., 2]` -> the same.
--- Raises: dimensions that x does not have, a norm that there is not.
---@param x mrt.Tensor
---@param ... any  s: sizes, dim, norm; or by name
---@return mrt.Tensor
function fft.ifftn(x, ...) end

--- Transform real numbers along two dimensions, by default the last two.
---
---     mrt.fft.rfft2(mrt.ones(4, 4)):type()  --> f32[4,3,2]
---
--- Shapes: `[..., n]` -> `[..., n // 2 + 1, 2]`.
--- Raises: dimensions that x does not have, a norm that there is not.
---@param x mrt.Tensor
---@param ... any  s: sizes, dim, norm; or by name
---@return mrt.Tensor
function fft.rfft2(x, ...) end

--- Transform real numbers along several dimensions, by default all.
---
---     mrt.fft.rfftn(mrt.ones(4, 4)):type()  --> f32[4,3,2]
---
--- Shapes: `[..., n]` -> `[..., n // 2 + 1, 2]`.
--- Raises: dimensions that x does not have, a norm that there is not.
---@param x mrt.Tensor
---@param ... any  s: sizes, dim, norm; or by name
---@return mrt.Tensor
function fft.rfftn(x, ...) end

--- Transform back to real numbers along two dimensions, by default the last two.
---
---     mrt.fft.irfft2(mrt.ones(4, 3, 2)):type()  --> f32[4,4]
---
--- Shapes: `[..., n // 2 + 1, 2]` -> `[..., n]`.
--- Raises: dimensions that x does not have, a norm that there is not.
---@param x mrt.Tensor
---@param ... any  s: sizes, dim, norm; or by name
---@return mrt.Tensor
function fft.irfft2(x, ...) end

--- Transform back to real numbers along several dimensions, by default all.
---
---     mrt.fft.irfftn(mrt.ones(4, 3, 2)):type()  --> f32[4,4]
---
--- Shapes: `[..., n // 2 + 1, 2]` -> `[..., n]`.
--- Raises: dimensions that x does not have, a norm that there is not.
---@param x mrt.Tensor
---@param ... any  s: sizes, dim, norm; or by name
---@return mrt.Tensor
function fft.irfftn(x, ...) end
